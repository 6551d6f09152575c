//! Common Lisp code intelligence in one file: a Rust program with SBCL inside it.
//!
//! [`Steelbank`] is the entry point. It starts SBCL on its own thread in this process and answers
//! questions about Lisp code with typed answers:
//!
//! ```standalone_crate
//! use steelbank::{Control, Steelbank, WhoRequest};
//!
//! # fn main() -> Result<(), steelbank::Error> {
//! let bank = Steelbank::builder().start()?;
//! let callers = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
//! assert!(callers.count > 300);
//! for user in callers.users.iter().take(3) {
//!     for place in user.places() {
//!         println!("{place}: {}", user.name);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A process can run only one SBCL: a second `start` is an error, and clones of the handle share
//! the first one.
//!
//! # Questions
//!
//! [`Steelbank::ask`] answers a [`Question`], which changes nothing. The `new` function of a
//! request takes the required arguments; methods or public fields set the optional ones. A
//! [`Control`] limits the time of a question and can cancel it.
//!
//! | subject | request | answer |
//! |---|---|---|
//! | a symbol's description | [`DescribeSymbolRequest`] | [`DescribeSymbolAnswer`] |
//! | symbols by name | [`AproposRequest`] | [`AproposAnswer`] |
//! | a package's symbols | [`PackageInfoRequest`] | [`PackageInfoAnswer`] |
//! | definitions of a name | [`FindDefinitionRequest`] | [`FindDefinitionAnswer`] |
//! | uses, by function | [`WhoRequest`] | [`WhoAnswer`] |
//! | uses, by line | [`CodeFindReferencesRequest`] | [`CodeFindReferencesAnswer`] |
//! | macro expansion | [`MacroexpandRequest`] | [`MacroexpandAnswer`] |
//! | machine code | [`DisassembleRequest`] | [`Disassembly`] |
//! | compiler notes | [`CompilerNotesRequest`] | [`CompilerNotes`] |
//! | the project's systems | [`ListSystemsRequest`] | [`SystemsAnswer`] |
//! | the edits of a rename | [`RenameRequest`] | [`RenamePlan`] |
//! | the edits of a rename, as a patch | [`RenameDiffRequest`] | [`RenameDiff`] |
//! | definitions, dead code | `OutlineRequest` | `OutlineAnswer` |
//! | call graph | `CallGraphRequest` | `CallGraphAnswer` |
//! | call path between two definitions | `PathRequest` | `PathAnswer` |
//! | dependencies between modules | `InterfaceRequest` | `InterfaceAnswer` |
//! | code that creates instances | `WhoMakesRequest` | `WhoMakesAnswer` |
//! | code that a change affects | `ImpactRequest` | `ImpactAnswer` |
//! | a name in any language | `FindReferencesRequest` | `References` |
//! | state of the text index | `IndexStatusRequest` | `IndexStatus` |
//!
//! ```
//! use steelbank::{AproposRequest, Control, DescribeSymbolRequest, Kind, Steelbank, WhoRequest};
//!
//! # fn main() -> Result<(), steelbank::Error> {
//! # let bank = Steelbank::get_or_start(Steelbank::builder())?;
//! let control = Control::default();
//! let found = bank.ask(&AproposRequest::new("hash-table-count"), &control)?;
//! assert!(found.total > 0);
//! let request = DescribeSymbolRequest::new("hash-table-count").package("CL");
//! let described = bank.ask(&request, &control)?;
//! assert!(described.to_string().starts_with("COMMON-LISP::HASH-TABLE-COUNT [FUNCTION]"));
//! assert_eq!(described.description.unwrap().symbol, "cl:hash-table-count");
//! let readers = bank.ask(&WhoRequest::new(Kind::References, "cl:*print-base*"), &control)?;
//! assert!(readers.count > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Actions
//!
//! [`Steelbank::run`] runs an [`Action`], which loads code, evaluates code or writes files. The
//! [`Control`] of an action also receives progress reports. Questions are answered while an action
//! runs. If evaluated code or a test fails, the answer reports this; a load that fails is an
//! [`Error`], unless [`LoadRequest::failure_as_answer`] is set. [`Error::kind`] classifies errors.
//!
//! | purpose | request | answer |
//! |---|---|---|
//! | load a system, a file or the project | [`LoadRequest`] | [`LoadAnswer`] |
//! | reload files that changed on disk | [`ReloadRequest`] | [`ReloadAnswer`] |
//! | check whether edited files load, in a copy of the image | [`CheckRequest`] | [`CheckAnswer`] |
//! | run tests | [`RunTestsRequest`] | [`TestRun`] |
//! | evaluate forms | [`EvaluateRequest`] | [`Evaluation`] |
//! | get a form's value in Rust | [`EvaluateRequest::json`] | any type that serde can deserialize |
//! | inspect an object | [`InspectRequest`] | [`Inspection`] |
//! | verify a rename in copies | [`RenameVerifyRequest`] | [`Verified`] |
//! | apply a rename | [`RenameApplyRequest`] | [`Applied`] |
//! | undo an edit | [`UndoRequest`] | [`Undone`] |
//! | edit one definition | [`EditRequest`] | [`EditAnswer`] |
//! | roll back edits that a crash interrupted | [`RecoverEditsRequest`] | [`UnfinishedEdit`]s |
//! | start a copy to try code in | [`ScratchRequest`] | [`scratch::Scratch`] |
//! | index the project's text | `IndexProjectRequest` | `Indexed` |
//!
//! Every answer in these tables implements `Display`, except lists, the Rust value of a form, and
//! [`scratch::Scratch`]. The text is the same as that of the tool with the same subject.
//!
//! ```
//! use std::time::Duration;
//!
//! use steelbank::{Control, EvaluateRequest, InspectRequest, Inspected, Steelbank};
//!
//! # fn main() -> Result<(), steelbank::Error> {
//! # let bank = Steelbank::get_or_start(Steelbank::builder())?;
//! let control = Control::new(Duration::from_secs(60));
//! let request = EvaluateRequest::new("(defun cl-user::twice (x) (* 2 x)) (twice 21)");
//! let evaluation = bank.run(&request, &control)?;
//! assert_eq!(evaluation.values[0].text, "42");
//! let squares: Vec<u32> = bank.run(&EvaluateRequest::new("(list 0 1 4)").json(), &control)?;
//! assert_eq!(squares, [0, 1, 4]);
//! let request = InspectRequest::new(Inspected::Expression("(list 1 2)".to_owned()));
//! let list = bank.run(&request, &control)?;
//! assert_eq!(list.parts.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! * [`Steelbank`], [`Builder`], [`Installation`]: start SBCL and ask questions.
//! * [`actions`]: all questions and actions, one module each, with requests and answers (except
//!   [`RenameDiff`], the answers serialize to JSON).
//! * [`answer`]: the types that answers consist of.
//! * [`xref`]: the index of cross references, from which the who-calls family is answered.
//! * [`reader`]: a reader for Lisp text that needs no Lisp.
//! * [`text`]: an index of the text of any source tree.
//! * [`tools`]: tools with JSON schemas; [`actions::tools`] lists all, for programs that call them
//!   by name with JSON.
//! * `doors` (feature `server`): the MCP server, the language server, and the command line.
//! * [`engine`]: jobs for Lisp's threads, deadlines, interrupts and faults, for custom questions.
//!
//! # Which code runs
//!
//! The project's code runs only if a call requires this: the call loads code, evaluates forms,
//! inspects the value of an expression, runs tests, or expands macros. Compiler notes expand
//! macros, too. In addition, describe-symbol runs print-object methods to print a variable's value,
//! and questions that return documentation strings run the project's methods on `documentation`. A
//! question never interns a symbol.
//!
//! # Features
//!
//! * `embedded`: links SBCL into the program, which is then one file without further requirements.
//!   With `server`, only into a program that calls [`Installation::embedded`].
//! * `grammars`: lets the text index find definitions in languages other than Lisps.
//! * `server` (default; enables `embedded` and `grammars`): the `steelbank` program, with its
//!   command line, its MCP server and its language server.
//! * `http` (default, enables `server`): the MCP server over HTTP.

#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(feature = "server"),
    allow(
        dead_code,
        unused_imports,
        reason = "only the program starts copies of itself, which save snapshots and try code"
    )
)]

/// Compiles the Rust examples of docs/library.md as doctests.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct Readme;

/// Implements `Debug` for a type that has fields without it: prints only the named fields.
macro_rules! debug_fields {
    ($type:ident $(<$lifetime:lifetime>)? $(, $field:ident)*) => {
        impl std::fmt::Debug for $type $(<$lifetime>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}

pub mod actions;
pub mod answer;
#[cfg(feature = "server")]
pub mod doors;
pub mod engine;
#[cfg(feature = "server")]
pub mod export;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod fuzzing;
mod handle;
// Public because the tests and the fuzz targets read sidecars and the table of operators.
#[doc(hidden)]
pub mod source;
pub mod tools;
mod workspace;

pub use actions::change::check::{CheckAnswer, CheckRequest};
pub use actions::change::edit_definition::{EditAnswer, EditOperation, EditRequest};
pub use actions::change::reload::{ReloadAnswer, ReloadRequest};
pub use actions::change::rename::{
    Applied, RecoverEditsRequest, RenameApplyRequest, RenameDiff, RenameDiffRequest, RenamePlan,
    RenameRequest, RenameVerifyRequest, UndoRequest, Undone, UnfinishedEdit, Verified,
};
pub use actions::run::compiler_notes::{CompilerNotes, CompilerNotesRequest};
pub use actions::run::disassemble::{DisassembleRequest, Disassembly};
pub use actions::run::evaluate::{EvaluateAnswer, EvaluateRequest, Evaluation, JsonRequest, ValuesRequest};
pub use actions::run::inspect::{InspectRequest, Inspected, Inspection};
pub use actions::run::list_systems::{ListSystemsRequest, SystemsAnswer};
pub use actions::run::macroexpand::{MacroexpandAnswer, MacroexpandRequest};
pub use actions::run::run_tests::{RunTestsRequest, TestRun};
pub use actions::symbols::apropos::{AproposAnswer, AproposRequest};
pub use actions::symbols::describe_symbol::{DescribeSymbolAnswer, DescribeSymbolRequest};
pub use actions::symbols::find_definition::{FindDefinitionAnswer, FindDefinitionRequest};
pub use actions::symbols::package_info::{PackageInfoAnswer, PackageInfoRequest};
pub use actions::text::{
    find_references::{FindReferencesRequest, References},
    index_project::{IndexProjectRequest, IndexStatus, IndexStatusRequest, Indexed},
};
pub use actions::uses::code_find_references::{CodeFindReferencesAnswer, CodeFindReferencesRequest};
pub use actions::uses::who::{WhoAnswer, WhoRequest};
pub use actions::uses::{
    call_graph::{CallGraphAnswer, CallGraphRequest},
    impact::{ImpactAnswer, ImpactRequest},
    interface::{InterfaceAnswer, InterfaceRequest},
    outline::{OutlineAnswer, OutlineRequest},
    path::{PathAnswer, PathRequest},
    who_makes::{WhoMakesAnswer, WhoMakesRequest},
};
pub use engine::control::{Cancellation, Control};
pub use engine::{Progress, Step};
pub use handle::loaded::LoadAnswer;
pub use handle::question::{Action, Question};
pub use handle::scratch::ScratchRequest;
pub use handle::swank::SwankServer;
pub use handle::{
    Builder, Error, ErrorKind, IndexData, Installation, LoadRequest, RequestError, StartedFrom, Steelbank,
    context, loaded, recovery, scratch, snapshot,
};
pub use steelbank_reader as reader;
pub use steelbank_text as text;
pub use steelbank_xref as xref;
pub use steelbank_xref::Kind;
pub use workspace::{NoProject, ProjectSettings};

//! Common Lisp code intelligence in one file: a Rust program with SBCL inside it.
//!
//! [`Steelbank`] is the way in. It starts SBCL on a thread of its own in this process, and answers questions about the
//! code in it with typed answers:
//!
//! ```standalone_crate
//! use steelbank::{Control, Steelbank, WhoRequest};
//!
//! # fn main() -> Result<(), steelbank::Error> {
//! let bank = Steelbank::builder().start()?;
//! let callers = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
//! assert!(callers.count > 300);
//! for user in callers.users.iter().take(3) {
//!     println!("{} in {:?}", user.name, user.places[0].file);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! There is one SBCL in a process: a second `start` is an error, and clones of the handle share the first.
//!
//! # Questions
//!
//! [`Steelbank::ask`] answers a [`Question`]; it changes nothing. Every request is made by `new` with what it must have,
//! and methods or public fields for what it may have. A [`Control`] has the time that it may take, and calls it off.
//!
//! | to learn | request | answer |
//! |---|---|---|
//! | what a symbol is | [`DescribeSymbolRequest`] | [`DescribeSymbolAnswer`] |
//! | which symbols match | [`AproposRequest`] | [`AproposAnswer`] |
//! | what a package has | [`PackageInfoRequest`] | [`PackageInfoAnswer`] |
//! | where it is defined | [`FindDefinitionRequest`] | [`FindDefinitionAnswer`] |
//! | who uses it, by function | [`WhoRequest`] | [`WhoAnswer`] |
//! | every use, by line | [`CodeFindReferencesRequest`] | [`CodeFindReferencesAnswer`] |
//! | how a form expands | [`MacroexpandRequest`] | [`MacroexpandAnswer`] |
//! | its machine code | [`DisassembleRequest`] | [`Disassembly`] |
//! | what the compiler says | [`CompilerNotesRequest`] | [`CompilerNotes`] |
//! | the project's systems | [`ListSystemsRequest`] | [`SystemsAnswer`] |
//! | what a rename edits | [`RenameRequest`] | [`RenamePlan`] |
//! | the same as a patch | [`RenameDiffRequest`] | [`RenameDiff`] |
//! | definitions, dead code | `OutlineRequest` | `OutlineAnswer` |
//! | who calls whom | `CallGraphRequest` | `CallGraphAnswer` |
//! | how one gets to another | `PathRequest` | `PathAnswer` |
//! | what modules use of each other | `InterfaceRequest` | `InterfaceAnswer` |
//! | who makes instances | `WhoMakesRequest` | `WhoMakesAnswer` |
//! | what a change reaches | `ImpactRequest` | `ImpactAnswer` |
//! | a name in any language | `FindReferencesRequest` | `References` |
//! | how old the text's index is | `IndexStatusRequest` | `IndexStatus` |
//!
//! ```
//! use steelbank::{AproposRequest, Control, DescribeSymbolRequest, Kind, Steelbank, WhoRequest};
//!
//! # fn main() -> Result<(), steelbank::Error> {
//! # let bank = Steelbank::get_or_start(Steelbank::builder())?;
//! let control = Control::default();
//! let found = bank.ask(&AproposRequest::new("hash-table-count"), &control)?;
//! assert!(found.total > 0);
//! let described = bank.ask(&DescribeSymbolRequest::new("hash-table-count").package("CL"), &control)?;
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
//! [`Steelbank::run`] carries out an [`Action`]: what loads, runs or writes something. The [`Control`] hears of its
//! progress, too; questions are answered meanwhile. Code that fails is an answer; after an error, [`Error::kind`] tells
//! of which kind it is.
//!
//! | to | request | answer |
//! |---|---|---|
//! | load a system, a file, the project | [`LoadRequest`] | [`LoadAnswer`] |
//! | load again what changed on disk | [`ReloadRequest`] | [`ReloadAnswer`] |
//! | try whether texts load, in a copy | [`CheckRequest`] | [`CheckAnswer`] |
//! | run tests | [`RunTestsRequest`] | [`TestRun`] |
//! | evaluate forms | [`EvaluateRequest`] | [`Evaluation`] |
//! | have their value in Rust | [`EvaluateRequest::json`] | any type that serde reads |
//! | look into an object | [`InspectRequest`] | [`Inspection`] |
//! | verify a rename, in copies | [`RenameVerifyRequest`] | [`Verified`] |
//! | write it, and undo it | [`RenameApplyRequest`], [`UndoRequest`] | [`Applied`], [`Undone`] |
//! | edit one definition | [`EditRequest`] | [`EditAnswer`] |
//! | take back what a killed process left half written | [`RecoverEditsRequest`] | [`UnfinishedEdit`]s |
//! | have a copy to try code in | [`ScratchRequest`] | [`scratch::Scratch`] |
//! | index the text | `IndexProjectRequest` | `Indexed` |
//!
//! Every answer is `Display`: the text that the tools give.
//!
//! ```
//! use std::time::Duration;
//!
//! use steelbank::{Control, EvaluateRequest, InspectRequest, Inspected, Steelbank};
//!
//! # fn main() -> Result<(), steelbank::Error> {
//! # let bank = Steelbank::get_or_start(Steelbank::builder())?;
//! let control = Control::new(Duration::from_secs(60));
//! let evaluation = bank.run(&EvaluateRequest::new("(defun cl-user::twice (x) (* 2 x)) (twice 21)"), &control)?;
//! assert_eq!(evaluation.values[0].text, "42");
//! let squares: Vec<u32> = bank.run(&EvaluateRequest::new("(list 0 1 4)").json(), &control)?;
//! assert_eq!(squares, [0, 1, 4]);
//! let list = bank.run(&InspectRequest::new(Inspected::Expression("(list 1 2)".to_owned())), &control)?;
//! assert_eq!(list.parts.len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Map
//!
//! * [`Steelbank`], [`Builder`], [`Installation`]: start SBCL, ask questions.
//! * [`actions`]: everything that it does, one module each, with requests and answers (all serialize to JSON);
//!   [`answer`]: what they are made of.
//! * [`xref`]: the index of cross references that the who-calls family is answered from.
//! * [`reader`]: Lisp text without Lisp.
//! * [`text`]: the index of any source tree's text.
//! * [`tools`]: what a tool is; [`actions::tools`] has all, for programs that call them by name with JSON.
//! * `doors` (feature `server`): the MCP server, the language server, and the command line.
//! * [`engine`]: jobs for the Lisp thread, deadlines, interrupts, faults; for questions of one's own.
//!
//! # What it runs
//!
//! No code of the project, unless a call is there for it: loading, evaluating, inspecting an expression,
//! running tests, and expanding macros, which compiler notes do too. Only describe-symbol runs print-object
//! methods besides, to print a variable's value. A question never interns a symbol.
//!
//! # Features
//!
//! * `embedded`: SBCL in the program that calls [`Installation::embedded`].
//! * `grammars`: the text index finds definitions in languages other than Lisps.
//! * `server` (default, brings both): the `steelbank` program, with its command line and its MCP server.
//! * `http` (default, brings `server`): the MCP server over HTTP.

#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(feature = "server"),
    allow(
        dead_code,
        unused_imports,
        reason = "only the program runs as its own copy, which saves and tries"
    )
)]

/// The Rust of the pages is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct Readme;

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
// Public for the tests and the fuzzing, which read sidecars and the table of operators.
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
pub use handle::{Builder, IndexData, Installation, LoadRequest, StartedFrom, Steelbank};
pub use handle::{Error, ErrorKind, RequestError, context, loaded, recovery, scratch, snapshot};
pub use steelbank_reader as reader;
pub use steelbank_text as text;
pub use steelbank_xref as xref;
pub use steelbank_xref::Kind;
pub use workspace::{NoProject, ProjectSettings};

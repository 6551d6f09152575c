//! The structural reader: parses Lisp text to forms and tokens with their ranges in bytes.
//!
//! Common Lisp is read as by `cl:read` with the standard readtable, but nothing is interned or
//! evaluated, and any bytes are accepted. Three other dialects are supported ([`Dialect`]).
//! [`LispText::read`] returns
//!
//! * the **top-level forms** in order ([`TopLevelForm`]), each with its current package;
//! * every **form** ([`Form`]): lists, and data with a macro character in front, such as `'x`. Each
//!   has its span, its parent, and the *form number* of SBCL's compiler
//!   (`sb-c::find-source-paths`). A form number from SBCL's debug information thus leads to a
//!   position in the text;
//! * every **token** ([`Token`]): symbols with their package prefix, numbers, strings, characters,
//!   comments.
//!
//! Text excluded by `#+` and `#-` is read too, but marked inactive and never numbered.
//!
//! ```
//! use steelbank_reader::{Dialect, Features, LispText};
//!
//! let text = b"(in-package :app)\n(defun greet (x) #+nil (never) (print (list 'hello x)))";
//! let file = LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
//! let greet = &file.toplevel()[1];
//! assert_eq!(greet.package.as_deref(), Some("APP"));
//! let print = file.numbered(greet, 2).unwrap();
//! assert_eq!(&text[print.span.indices()], b"(print (list 'hello x))");
//! assert!(file.head(print).unwrap().is_named(text, "PRINT"));
//! ```

pub mod asd;
mod calls;
pub mod edit;
mod features;
pub mod lines;
pub mod operators;
mod range;
mod reader;
pub mod structure;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod token;

pub use calls::NonCalls;
pub use features::{Features, Numbering};
pub use range::Range;
pub use syntax::Dialect;
pub use text::{Datum, Form, FormId, FormKind, LispText, TopLevelForm};
pub use token::{Marker, Token, TokenKind, WrittenSymbol};
pub use token::{normalized, read_name, upcase};

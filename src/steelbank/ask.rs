//! Questions about the image that need only a [`QueryContext`].

use std::time::Duration;

use super::Steelbank;
use crate::engine::{FaultKind, LispError};
use crate::query::Error;
use crate::query::apropos::{AproposAnswer, AproposRequest};
use crate::query::compiler_notes::{CompilerNotes, CompilerNotesRequest};
use crate::query::context::QueryContext;
use crate::query::control::Control;
use crate::query::disassemble::{DisassembleRequest, Disassembly};
use crate::query::macroexpand::{MacroexpandAnswer, MacroexpandRequest};
use crate::query::package_info::{PackageInfoAnswer, PackageInfoRequest};
use crate::query::question::Question;

/// The most retries of a question that found the heap full.
const RETRIES: usize = 2;
/// The pause before a retry, in which the work that fills the heap can end.
const PAUSE: Duration = Duration::from_millis(200);

impl Steelbank {
    /// Returns the context of questions, with the index as it is now.
    pub fn context(&self) -> QueryContext<'_> {
        QueryContext {
            lisp: self.lisp(),
            index: self.index(),
            project: self.project(),
            sbcl: self.sources(),
            #[cfg(feature = "text")]
            text: None,
        }
    }

    /// Asks any question about the image.
    ///
    /// # Errors
    /// The request is malformed, Lisp cannot answer, or the question was cancelled.
    pub fn ask<Q: Question>(&self, question: &Q, control: &Control) -> Result<Q::Answer, Error> {
        // Retry a full heap: as a rule other work fills it, and ends with the same fault at its next
        // allocation.
        for _ in 0..(if Q::REPEATABLE { RETRIES } else { 0 }) {
            match question.answer(&self.context(), control) {
                Err(Error::Lisp(LispError::Fault(fault))) if fault.kind == FaultKind::HeapExhausted => {
                    control.check()?;
                    std::thread::sleep(PAUSE);
                }
                outcome => return outcome,
            }
        }
        question.answer(&self.context(), control)
    }

    /// Finds the symbols whose names match a pattern.
    ///
    /// # Errors
    /// The pattern is malformed, or Lisp cannot answer.
    pub fn apropos(&self, request: &AproposRequest, control: &Control) -> Result<AproposAnswer, Error> {
        self.ask(request, control)
    }

    /// Lists what a package exports, uses and shadows.
    ///
    /// # Errors
    /// Lisp cannot answer.
    pub fn package_info(
        &self,
        request: &PackageInfoRequest,
        control: &Control,
    ) -> Result<PackageInfoAnswer, Error> {
        self.ask(request, control)
    }

    /// Disassembles a function.
    ///
    /// # Errors
    /// There is no such symbol, or Lisp cannot answer.
    pub fn disassemble(&self, request: &DisassembleRequest, control: &Control) -> Result<Disassembly, Error> {
        self.ask(request, control)
    }

    /// Compiles one definition for the compiler's diagnostics. The definition in the image stays. This runs
    /// the macros that it uses.
    ///
    /// # Errors
    /// There is no such symbol, or Lisp cannot answer.
    pub fn compiler_notes(
        &self,
        request: &CompilerNotesRequest,
        control: &Control,
    ) -> Result<CompilerNotes, Error> {
        self.ask(request, control)
    }

    /// Expands the macros of a form. This runs them.
    ///
    /// # Errors
    /// The form cannot be read, a macro failed, or Lisp cannot answer.
    pub fn macroexpand(
        &self,
        request: &MacroexpandRequest,
        control: &Control,
    ) -> Result<MacroexpandAnswer, Error> {
        self.ask(request, control)
    }

    /// Lists the definitions of a file, package or system, with their uses. `text` is the index of the
    /// project's text, if there is one.
    ///
    /// # Errors
    /// The target does not exist, or the question was cancelled.
    #[cfg(feature = "text")]
    pub fn outline(
        &self,
        request: &crate::query::outline::OutlineRequest,
        text: Option<&steelbank_text::TextIndex>,
        control: &Control,
    ) -> Result<crate::query::outline::OutlineAnswer, Error> {
        let context = QueryContext { text, ..self.context() };
        self.inner.outlined.answer(request, &context, || request.answer(&context, control))
    }

    /// Follows the callers of a function, or its callees, to a depth.
    ///
    /// # Errors
    /// The name is malformed, or the question was cancelled.
    #[cfg(feature = "text")]
    pub fn call_graph(
        &self,
        request: &crate::query::call_graph::CallGraphRequest,
        control: &Control,
    ) -> Result<crate::query::call_graph::CallGraphAnswer, Error> {
        self.ask(request, control)
    }

    /// Finds the code to look at when definitions change.
    ///
    /// # Errors
    /// A name or file does not exist, or the question was cancelled.
    #[cfg(feature = "text")]
    pub fn impact(
        &self,
        request: &crate::query::impact::ImpactRequest,
        control: &Control,
    ) -> Result<crate::query::impact::ImpactAnswer, Error> {
        // Never reuse an answer about the diff: the commit that git compares with may change without any file.
        match request.diff {
            true => self.ask(request, control),
            false => self.inner.impacts.answer(request, &self.context(), || self.ask(request, control)),
        }
    }
}

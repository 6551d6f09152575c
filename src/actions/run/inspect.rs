//! inspect: the parts of an object, given by an expression or by the handle from an earlier answer.

pub(crate) mod tool;

use crate::Steelbank;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::name::written;
use crate::answer::words::words;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evaluate::{EvaluateRequest, Evaluation, EvaluationReport, evaluate};
use super::trial;
use crate::engine::control::Control;
use crate::engine::{CallError, Lane, OnLisp, deadline_after};
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Action;
use steelbank_xref::Index;

/// The object to inspect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspected {
    /// The first value of the last of these forms.
    Expression(String),
    /// The object to which an earlier answer gave this handle.
    Handle(String),
}

/// A request for the parts of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectRequest {
    /// The object to inspect.
    pub subject: Inspected,
    /// The package to read and print in.
    pub package: String,
    /// The path to a part of it: steps separated by slashes, as [`ObjectPart::path`]; empty for the object
    /// itself.
    pub path: String,
    /// How many parts to skip.
    pub offset: usize,
    /// How many parts to list at most.
    pub limit: usize,
}

impl InspectRequest {
    /// Makes a request for the parts of `subject`; an expression is read in CL-USER.
    pub fn new(subject: Inspected) -> Self {
        Self {
            subject,
            package: DEFAULT_PACKAGE.to_owned(),
            path: String::new(),
            offset: 0,
            limit: ALL_PARTS,
        }
    }
}

/// As many parts as Lisp can count.
const ALL_PARTS: usize = u32::MAX as usize;

/// Whether there is something to tell of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InspectStatus {
    /// There is.
    #[default]
    Found,
    /// The handle's object was forgotten: too many others were asked about since, or the heap was full.
    Gone,
    /// There never was such a handle.
    Unknown,
    /// The path leads nowhere.
    NoPart,
    /// The expression failed; `evaluation` tells how.
    Failed,
}

words! {
    /// The kind of an object.
    ObjectKind {
        /// A proper list.
        List = "list",
        /// A list that ends in an atom.
        DottedList = "dotted-list",
        /// A list that comes back to itself.
        CircularList = "circular-list",
        /// A string.
        String = "string",
        /// A vector.
        Vector = "vector",
        /// An array of another rank.
        Array = "array",
        /// A hash table.
        HashTable = "hash-table",
        /// A function.
        Function = "function",
        /// A function with the values that it closes over.
        Closure = "closure",
        /// A generic function.
        GenericFunction = "generic-function",
        /// A symbol.
        Symbol = "symbol",
        /// A ratio.
        Ratio = "ratio",
        /// A complex number.
        Complex = "complex",
        /// An integer.
        Integer = "integer",
        /// A floating-point number.
        Float = "float",
        /// A character.
        Character = "character",
        /// A package.
        Package = "package",
        /// A class.
        Class = "class",
        /// A pathname.
        Pathname = "pathname",
        /// A weak pointer.
        WeakPointer = "weak-pointer",
        /// A stream.
        Stream = "stream",
        /// A condition.
        Condition = "condition",
        /// A structure.
        Structure = "structure",
        /// An instance of a class that `defclass` made.
        StandardObject = "standard-object",
    } or
    /// An object of another kind, by the name of its type.
    Opaque
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inspection {
    /// Whether it was found.
    pub status: InspectStatus,
    /// The handle that was asked about; empty if it was an expression.
    #[serde(skip)]
    pub asked: String,
    /// What to ask about it again with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The path from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its class; of an array its type.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind_of: String,
    /// What the parts are of: `list`, `hash-table`, `structure`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub kind: Option<ObjectKind>,
    /// As it is printed; or what is wrong with the path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Whether it was too long to be printed whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether printing it failed or did not end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unprintable: bool,
    /// What there is to tell besides its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// How many parts it has.
    #[serde(default)]
    pub count: usize,
    /// The parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ObjectPart>,
    /// How the expression failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
}

impl Inspection {
    /// Writes the names of classes, slots and functions as a person does. All else is what the image prints.
    fn write_names(&mut self, index: &Index) {
        use ObjectKind::{Array, Character, Condition, StandardObject, Stream, String, Structure, Vector};
        if !matches!(self.kind, Some(Array | String | Vector)) {
            self.kind_of = written(index, &self.kind_of);
        }
        if self.kind != Some(Character) {
            let names =
                |fact: &&mut Fact| ["class", "metaclass", "name", "test"].contains(&fact.name.as_str());
            self.facts.iter_mut().filter(names).for_each(|fact| fact.value = written(index, &fact.value));
        }
        if matches!(self.kind, Some(Condition | StandardObject | Stream | Structure)) {
            let slots = self.parts.iter_mut().filter_map(|part| part.name.as_mut());
            slots.for_each(|name| *name = written(index, name));
        }
    }
}

/// A fact about an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// What it is about.
    pub name: String,
    /// What holds.
    pub value: String,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectPart {
    /// The path to it.
    pub path: String,
    /// The slot, the indices, or the key; left out where the path says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path to the key, if that has parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path: Option<String>,
    /// As it is printed.
    pub value: String,
    /// Whether it has parts of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parts: bool,
}

/// How long printing an object and its parts may take.
const PRINTING: Duration = Duration::from_secs(3);

impl InspectRequest {
    fn on_lisp(
        &self,
        on_lisp: &OnLisp<'_>,
        package: &str,
        deadline: Instant,
    ) -> Result<InspectionOutcome, CallError> {
        let handle = match &self.subject {
            Inspected::Handle(handle) => {
                on_lisp.grant(trial::PRINTING_TIME);
                handle.clone()
            }
            Inspected::Expression(code) => {
                let told = evaluate(on_lisp, package, code, deadline);
                match told.first().filter(|_| told.finished()) {
                    Some(handle) => handle.to_owned(),
                    None => return Ok(InspectionOutcome::Failed(Box::new(told))),
                }
            }
        };
        let (offset, limit) = (self.offset.to_string(), self.limit.to_string());
        let inspect = |plainly: &str| {
            let arguments = [handle.as_str(), &self.path, package, &offset, &limit, plainly];
            trial::ask::<Inspection>(on_lisp, PRINTING, "inspect", &arguments)
        };
        // Ask again without the user's PRINT-OBJECT methods if one of them does not return.
        let (inspection, _) = inspect("").or_else(|_| inspect("plainly"))?;
        Ok(InspectionOutcome::Inspected(Box::new(inspection)))
    }
}

impl Action for InspectRequest {
    type Answer = Inspection;

    /// Inspects. A failed expression or a handle that is gone is an answer.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Inspection, Error> {
        match self.subject {
            Inspected::Expression(_) => bank.refreshing(|| self.answer(&bank.context(), control)),
            Inspected::Handle(_) => self.answer(&bank.context(), control),
        }
    }
}

impl InspectRequest {
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Inspection, Error> {
        let evaluation = match &self.subject {
            Inspected::Expression(code) => EvaluateRequest::new(code.clone()).package(self.package.clone()),
            Inspected::Handle(_) => EvaluateRequest::new("").package(self.package.clone()),
        };
        let package = evaluation.package_in(context);
        let request = self.clone();
        let deadline = deadline_after(control.allowed());
        let ticket = context.lisp.submit(Lane::Work, control.allowed(), None, move |on_lisp| {
            request.on_lisp(on_lisp, &package, deadline)
        });
        match control.wait(ticket)? {
            InspectionOutcome::Inspected(mut inspection) => {
                inspection.write_names(&context.index);
                if let Inspected::Handle(handle) = &self.subject {
                    inspection.asked.clone_from(handle);
                }
                Ok(*inspection)
            }
            InspectionOutcome::Failed(told) => Ok(Inspection {
                status: InspectStatus::Failed,
                evaluation: Some(evaluation.placed(*told, context)),
                ..Inspection::default()
            }),
        }
    }
}

enum InspectionOutcome {
    Inspected(Box<Inspection>),
    Failed(Box<EvaluationReport>),
}

//! Implements inspect, which lists the parts of an object. The object is the value of an
//! expression, or is named by a handle from an earlier answer.

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
    /// The object with this handle from an earlier answer.
    Handle(String),
}

/// A request for the parts of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectRequest {
    /// The object to inspect.
    pub subject: Inspected,
    /// The package for reading forms and printing values.
    pub package: String,
    /// The path to a part of the object, as in [`ObjectPart::path`]: steps separated by slashes.
    /// Empty for the object itself.
    pub path: String,
    /// Number of parts to skip.
    pub offset: usize,
    /// Maximum number of parts to list.
    pub limit: usize,
}

impl InspectRequest {
    /// Creates a request for all parts of `subject`; an expression is read in CL-USER.
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

/// A limit that no object reaches.
const ALL_PARTS: usize = u32::MAX as usize;

/// The outcome of an inspection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InspectStatus {
    /// The object was found.
    #[default]
    Found,
    /// The object is no longer available: newer handles evicted its handle, or the heap was full.
    Gone,
    /// No such handle was ever issued to the client.
    Unknown,
    /// The path does not lead to a part.
    NoPart,
    /// The expression failed; see `evaluation`.
    Failed,
}

words! {
    /// The kind of an object.
    ObjectKind {
        /// A proper list.
        List = "list",
        /// A list that ends in an atom.
        DottedList = "dotted-list",
        /// A list with a cycle.
        CircularList = "circular-list",
        /// A string.
        String = "string",
        /// A vector.
        Vector = "vector",
        /// An array that is not a vector.
        Array = "array",
        /// A hash table.
        HashTable = "hash-table",
        /// A function.
        Function = "function",
        /// A function that closes over values.
        Closure = "closure",
        /// A generic function with methods.
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
        /// An instance of a class that `defclass` defined.
        StandardObject = "standard-object",
    } or
    /// Another kind of object, named by its type.
    Opaque
}

/// The answer to inspect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inspection {
    /// Whether the object was found.
    pub status: InspectStatus,
    /// The handle in the request; empty for an expression.
    #[serde(skip)]
    pub asked: String,
    /// The handle from which `path` leads to this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The path from `handle` to this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The object's class, or an array's type.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind_of: String,
    /// The kind of object, which determines its parts: `list`, `hash-table`, `structure`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub kind: Option<ObjectKind>,
    /// The printed form; for a bad path, the error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Whether the printed form was truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether printing failed or did not finish.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unprintable: bool,
    /// Properties other than parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// Number of parts.
    #[serde(default)]
    pub count: usize,
    /// The parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ObjectPart>,
    /// The failure of the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
}

impl Inspection {
    /// Spells the names of classes, slots and functions as in source code. Other text stays as Lisp
    /// printed it.
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

/// A property of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// The property's name.
    pub name: String,
    /// The property's value.
    pub value: String,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectPart {
    /// The path to the part.
    pub path: String,
    /// The slot, indices or key; omitted if the path already gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path to the key, if the key has parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path: Option<String>,
    /// The printed value.
    pub value: String,
    /// Whether the value has parts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parts: bool,
}

/// Time limit for each attempt to print an object and its parts.
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
                let report = evaluate(on_lisp, package, code, deadline);
                match report.first().filter(|_| report.finished()) {
                    Some(handle) => handle.to_owned(),
                    None => return Ok(InspectionOutcome::Failed(Box::new(report))),
                }
            }
        };
        let (offset, limit) = (self.offset.to_string(), self.limit.to_string());
        let inspect = |plainly: &str| {
            let arguments = [handle.as_str(), &self.path, package, &offset, &limit, plainly];
            trial::ask::<Inspection>(on_lisp, PRINTING, "inspect", &arguments)
        };
        // If the first attempt fails, for example because a user's PRINT-OBJECT method does not
        // return, print without such methods.
        let (inspection, _) = inspect("").or_else(|_| inspect("plainly"))?;
        Ok(InspectionOutcome::Inspected(Box::new(inspection)))
    }
}

impl Action for InspectRequest {
    type Answer = Inspection;

    /// Inspects the object. A failed expression or an evicted handle is an answer, not an error.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Inspection, Error> {
        match self.subject {
            Inspected::Expression(_) => bank.refreshing(control, || self.answer(&bank.context(), control)),
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
            InspectionOutcome::Failed(report) => Ok(Inspection {
                status: InspectStatus::Failed,
                evaluation: Some(evaluation.placed(*report, context)),
                ..Inspection::default()
            }),
        }
    }
}

enum InspectionOutcome {
    Inspected(Box<Inspection>),
    Failed(Box<EvaluationReport>),
}

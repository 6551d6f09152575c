//! Call hierarchies (callers and callees) and type hierarchies (superclasses and subclasses).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use steelbank_reader::Range;
use steelbank_text::DefinitionKind;
use steelbank_xref::SymbolName;

use super::convert::{self, Answered, RequestRefusal};
use super::navigate::describe;
use super::outline::{DefinitionRange, definitions};
use super::server::Server;
use super::view::{Place, defines};
use crate::actions::symbols::describe_symbol::{ClassFacet, DescribeSymbolRequest, Description};
use crate::actions::uses::occurrences::OccurrenceKind;
use crate::answer::LispName;
use crate::engine::control::Control;

/// The protocol's numbers for kinds of symbols.
const CLASS: u32 = 5;
const FUNCTION: u32 = 12;

impl Server {
    /// Returns a hierarchy item for a symbol defined at `place`, with the protocol's `kind`.
    fn item(&self, symbol: &SymbolName, kind: u32, place: &Place, control: &Control) -> Option<Value> {
        let location = self.locations(vec![place.clone()], control).pop()?;
        Some(Self::item_at(symbol, kind, &location))
    }

    fn item_at(symbol: &SymbolName, kind: u32, location: &Value) -> Value {
        json!({
            "name": symbol.name.to_lowercase(),
            "detail": symbol.package,
            "kind": kind,
            "uri": location["uri"],
            "range": location["range"],
            "selectionRange": location["range"],
            "data": symbol,
        })
    }

    pub(super) fn prepare_calls(&self, params: &Value, control: &Control) -> Answered {
        let found = self.occurrence(params, control)?.filter(|found| found.binding.is_none());
        let Some(found) = found else { return Ok(Value::Null) };
        let places = self.defined(&found.symbol, false, control)?;
        Ok(places.iter().filter_map(|place| self.item(&found.symbol, FUNCTION, place, control)).collect())
    }

    fn item_of(params: &Value) -> Result<SymbolName, RequestRefusal> {
        SymbolName::deserialize(&params["item"]["data"])
            .map_err(|_| RequestRefusal::params("the item was not created by this server"))
    }

    pub(super) fn incoming_calls(&self, params: &Value, control: &Control) -> Answered {
        let symbol = Self::item_of(params)?;
        let mut by_file: BTreeMap<PathBuf, BTreeSet<Range>> = BTreeMap::new();
        for place in self.used(&symbol, control)? {
            by_file.entry(place.path).or_default().insert(place.range);
        }
        let mut calls = Vec::new();
        for (path, ranges) in by_file {
            let Some(file) = self.file_text(&path) else { continue };
            let mut callers: BTreeMap<usize, Vec<Range>> = BTreeMap::new();
            let all = definitions(&file.text);
            for range in control.until_cancelled(ranges) {
                // Find the innermost definition around the use.
                let around = all.partition_point(|known| known.form.start <= range.start).checked_sub(1);
                let around = around.filter(|around| all[*around].form.encloses(range));
                let around = around.filter(|around| all[*around].kind != DefinitionKind::Package);
                around.into_iter().for_each(|around| callers.entry(around).or_default().push(range));
            }
            let range_of = |range| convert::range(range, &file.text, &file.lines, self.encoding());
            for (caller, ranges) in control.until_cancelled(callers) {
                let known = &all[caller];
                let home = known.package.as_deref().unwrap_or("COMMON-LISP-USER");
                let symbol = SymbolName::new(home, &*known.spelt);
                let location = json!({ "uri": convert::uri_of(&path), "range": range_of(known.name) });
                let from: Vec<_> = ranges.into_iter().map(range_of).collect();
                calls
                    .push(json!({ "from": Self::item_at(&symbol, FUNCTION, &location), "fromRanges": from }));
            }
        }
        Ok(calls.into())
    }

    pub(super) fn outgoing_calls(&self, params: &Value, control: &Control) -> Answered {
        let uri = params["item"]["uri"].as_str().unwrap_or_default();
        let path = convert::path_of(uri).map(|path| self.native(&path));
        let Some(document) = path.and_then(|path| self.document(&path)) else { return Ok(json!([])) };
        let encoding = self.encoding();
        let range = &params["item"]["selectionRange"];
        let range = convert::range_from(range, &document.text, &document.lines, encoding)?;
        let all = definitions(&document.text);
        let Some(known) = all.iter().rfind(|known| known.form.encloses(range)) else { return Ok(json!([])) };
        let view = self.view(&document, control)?;
        let mut called: HashMap<&SymbolName, Vec<Value>> = HashMap::new();
        for found in
            control.until_cancelled(&view.occurrences).filter(|found| known.form.encloses(found.range))
        {
            let calls = matches!(found.kind, OccurrenceKind::Function | OccurrenceKind::Macro);
            if calls && found.binding.is_none() && !defines(found) {
                let ranges = called.entry(&found.symbol).or_default();
                ranges.push(document.range(found.range, encoding));
            }
        }
        let mut calls = Vec::new();
        for (symbol, ranges) in called {
            let place = self.defined(symbol, false, control)?.into_iter().next();
            let item = place.and_then(|place| self.item(symbol, FUNCTION, &place, control));
            calls.extend(item.map(|item| json!({ "to": item, "fromRanges": ranges })));
        }
        calls.sort_by_key(|call| call["fromRanges"].to_string());
        Ok(calls.into())
    }

    /// Returns the image's description of a symbol.
    pub(super) fn described(&self, request: DescribeSymbolRequest, control: &Control) -> Option<Description> {
        self.bank().ok()?.ask(&request, control).ok()?.description
    }

    pub(super) fn prepare_types(&self, params: &Value, control: &Control) -> Answered {
        let found = self.occurrence(params, control)?.filter(|found| found.binding.is_none());
        let Some(found) = found else { return Ok(Value::Null) };
        let known = self
            .described(describe(&found.symbol), control)
            .and_then(|known| self.class_item(&known, control));
        Ok(known.map_or(Value::Null, |item| json!([item])))
    }

    /// Returns the hierarchy item of a class, at the class's name. `None` if the symbol names no
    /// class, or if the image has no readable source position of the class.
    fn class_item(&self, known: &Description, control: &Control) -> Option<Value> {
        let class = known.class.as_ref()?;
        let mut place = class.sources.iter().find_map(|source| self.place(&source.place, control))?;
        let defined = definitions(&self.file_text(&place.path)?.text);
        let named = |other: &&DefinitionRange| other.spelt == known.name && place.range.encloses(other.name);
        if let Some(found) = defined.iter().find(named) {
            place.range = found.name;
        }
        self.item(&SymbolName::new(known.package.clone()?, &*known.name), CLASS, &place, control)
    }

    /// Returns the hierarchy items of the classes that `names` selects from the description of the
    /// item's class, such as its superclasses. Omits classes that have no item; see
    /// [`Server::class_item`].
    pub(super) fn related_types(
        &self,
        params: &Value,
        control: &Control,
        names: impl FnOnce(ClassFacet) -> Vec<LispName>,
    ) -> Answered {
        let symbol = Self::item_of(params)?;
        let class = self.described(describe(&symbol), control).and_then(|known| known.class);
        let related = class.map(names).unwrap_or_default().into_iter().filter_map(|name| {
            let known = self.described(DescribeSymbolRequest::new(name.as_str()), control)?;
            self.class_item(&known, control)
        });
        Ok(related.collect())
    }
}

//! Finds the places of a symbol in text that is not loaded, for an editor that asks before the
//! project is loaded. The packages in the text decide which tokens are the symbol; a token whose
//! package is unknown counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use steelbank_reader::Range;
use steelbank_text::{FileTokens, TextContext, TextToken, TokenClass};
use steelbank_tree::defines_systems;
use steelbank_xref::SymbolName;

use super::unloaded::{TextState, TokenResolver};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::workspace::TextFilter;

/// A request for the places of a symbol in text that is not loaded.
#[derive(Debug)]
pub(crate) struct TextPlacesRequest {
    pub(crate) symbol: SymbolName,
    /// The unsaved texts of an editor, which replace the files at these real paths.
    pub(crate) open: Vec<(PathBuf, Arc<str>)>,
}

/// A place of the symbol.
#[derive(Debug)]
pub(crate) struct NamedPlace {
    pub(crate) path: PathBuf,
    pub(crate) range: Range,
    /// Whether the form around the name defines it.
    pub(crate) defines: bool,
    pub(crate) is_method: bool,
}

impl Question for TextPlacesRequest {
    type Answer = Vec<NamedPlace>;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Vec<NamedPlace>, Error> {
        control.check()?;
        let (project, name) = (context.project, &self.symbol.name);
        let now = project.tree_view();
        let resolver = TokenResolver::new(&context.index, project, &now, &self.symbol);
        let mut places = Vec::new();
        let mut add = |path: &Path, text: &str, tokens: &FileTokens| {
            let is_system = defines_systems(path);
            let means = |token: &&TextToken| match token.context {
                // After the load, the image shows which of these are parameters.
                TextContext::Parameter => {
                    let code = TokenClass { context: TextContext::Code, ..TokenClass::clone(token) };
                    resolver.meaning(&code, is_system).is_some()
                }
                _ => resolver.meaning(token, is_system).is_some(),
            };
            for token in tokens.named(name).iter().filter(means) {
                places.push(NamedPlace {
                    path: path.to_owned(),
                    range: token.span,
                    defines: is_definition(text, token),
                    is_method: word_before(text, token.span.start).eq_ignore_ascii_case("defmethod"),
                });
            }
        };
        let found = project.named_at(&now, name, TextFilter::Unloaded, project.root().is_some());
        for named in control.until_cancelled(&found.files) {
            let is_open = self.open.iter().any(|(path, _)| **path == *named.path);
            // The image has the symbols of a file with the state `FeatureExcluded`.
            if !is_open
                && named.load_state != TextState::FeatureExcluded
                && let Some(file) = project.read_named(named)
            {
                add(&file.path, &file.text, &file.tokens);
            }
        }
        for (path, open) in self.open.iter().filter(|(path, _)| project.loaded_date(path).is_none()) {
            add(path, open, &FileTokens::read(open.as_bytes()));
        }
        control.check()?;
        Ok(places)
    }
}

/// Returns the word before the token at `start`.
fn word_before(text: &str, start: u32) -> &str {
    let before = text.get(..start as usize).unwrap_or_default().trim_end();
    before.rsplit(|char: char| char.is_whitespace() || "()".contains(char)).next().unwrap_or_default()
}

/// Returns whether the form around `token` defines its name, also as a slot's accessor.
pub(crate) fn is_definition(text: &str, token: &TextToken) -> bool {
    let is_option = |option: &&str| word_before(text, token.span.start).eq_ignore_ascii_case(option);
    token.defines || [":accessor", ":reader", ":writer"].iter().any(is_option)
}

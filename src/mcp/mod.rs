//! The tools, and the MCP server that offers them over stdio.
//!
//! One file for each family of tools, with a function `tools()` that lists them. To add a family, write the file,
//! declare it here and name it in [`Tools::all`]; the server, `steelbank tools` and `steelbank call` follow.

mod arguments;
mod project;
mod schema;
mod server;
mod status;
mod stdio;
mod symbols;
mod text;
mod tool;
mod wire;

pub use server::{INSTRUCTIONS, ServeError, serve_on, serve_stdio};
pub use tool::{Answer, Call, Effect, Failure, News, Outcome, Session, Tool};

use serde_json::{Value, json};

/// Every tool, by name.
pub struct Tools {
    list: Vec<Tool>,
}

impl Default for Tools {
    fn default() -> Self {
        Self::all()
    }
}

impl Tools {
    /// All tools that there are, sorted by name.
    pub fn all() -> Self {
        let families = [symbols::tools(), project::tools(), status::tools(), text::tools()];
        let mut list: Vec<Tool> = families.into_iter().flatten().collect();
        list.sort_by_key(Tool::name);
        Self { list }
    }

    /// The tools in order.
    pub fn list(&self) -> &[Tool] {
        &self.list
    }

    /// The tool called `name`.
    ///
    /// # Errors
    /// There is none: the sentence names those that there are.
    pub fn get(&self, name: &str) -> Result<&Tool, String> {
        self.list.iter().find(|tool| tool.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.list.iter().map(Tool::name).collect();
            format!("There is no tool called {}. The tools are {}.", tool::quoted(name), known.join(", "))
        })
    }

    /// What `tools/list` answers.
    pub fn listing(&self) -> Value {
        json!({ "tools": self.list.iter().map(Tool::listing).collect::<Vec<_>>() })
    }
}

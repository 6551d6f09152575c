//! describe-symbol and the who-calls family.

use clap::Args;
use serde_json::{Map, Value};

use super::{Exit, Shell, Trouble, call};

#[derive(Debug, Args)]
pub(super) struct Symbol {
    /// The symbol: mapcar, cl:mapcar, pkg::name, '|Mixed Case|', '(setf name)'
    name: String,
    /// The package to look the name up in
    #[arg(long, short, default_value = "CL-USER")]
    package: String,
    /// Print JSON with all that is known
    #[arg(long)]
    json: bool,
}

/// More than any symbol has: on the command line, lists are whole.
const ALL: u64 = 1_000_000;

impl Symbol {
    pub(super) fn run(&self, tool: &str, shell: &Shell) -> Result<Exit, Trouble> {
        let mut arguments = Map::from_iter([
            ("name".to_owned(), Value::from(self.name.as_str())),
            ("package".to_owned(), Value::from(self.package.as_str())),
        ]);
        if tool.starts_with("who-") {
            arguments.insert("limit".to_owned(), Value::from(ALL));
            arguments.insert("places".to_owned(), Value::from(self.json));
        }
        call::call(shell, tool, arguments, self.json)
    }
}

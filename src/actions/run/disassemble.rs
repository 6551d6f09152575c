//! Implements disassemble, which lists the machine code of a function as SBCL prints it.

pub(crate) mod tool;

use crate::answer::LispName;
use crate::answer::lookup::{NamedSymbol, about_symbol};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::symbols::find_definition::Resolved;
use crate::engine::{Control, Lane};
use crate::handle::{Error, QueryContext, Question};

/// A request for a function's machine code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct DisassembleRequest {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: NamedSymbol,
}

about_symbol!(DisassembleRequest {});

/// The answer to disassemble.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disassembly {
    /// The symbol, or the `(setf …)` name, that was requested.
    pub symbol: LispName,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The functions in `lines`: one, or the methods of a generic function. Empty if the symbol
    /// names no function.
    pub functions: Vec<FunctionCode>,
    /// The code of all functions, line by line.
    pub lines: Vec<String>,
}

/// Size of a function's machine code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FunctionCode {
    /// The function's name.
    pub name: LispName,
    /// Number of instructions.
    pub instructions: usize,
    /// Size in bytes.
    pub bytes: u64,
}

#[derive(Deserialize)]
struct DisassemblyReport {
    #[serde(default)]
    functions: Vec<FunctionReport>,
}

#[derive(Deserialize)]
struct FunctionReport {
    name: String,
    #[serde(default)]
    lines: Vec<String>,
}

impl Question for DisassembleRequest {
    type Answer = Disassembly;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Disassembly, Error> {
        let resolved = Resolved::new(context, &self.symbol)?;
        let operator = resolved.head().unwrap_or_default().to_owned();
        let arguments = vec![resolved.sought.name.clone(), resolved.sought.package.clone(), operator];
        let (report, _): (DisassemblyReport, _) =
            context.ask_on(Lane::Query, "disassemble", arguments, control)?;
        let looked_up_in = resolved.looked_up_in;
        let mut answer = Disassembly { symbol: resolved.name, looked_up_in, ..Disassembly::default() };
        for function in report.functions {
            answer.functions.push(FunctionCode {
                name: LispName::new(&context.index, function.name),
                instructions: function.lines.iter().filter(|line| is_instruction(line)).count(),
                bytes: function.lines.iter().filter_map(|line| size(line)).sum(),
            });
            answer.lines.extend(function.lines);
        }
        Ok(answer)
    }
}

/// Tests whether a line has an address and an instruction's bytes: `; 3F:  L0: 488BE5  MOV RSP,
/// RBP`.
fn is_instruction(line: &str) -> bool {
    let Some((address, rest)) = line.strip_prefix("; ").and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let is_hex = |word: &str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_hexdigit());
    let mut words = rest.split_whitespace().filter(|word| !word.ends_with(':'));
    is_hex(address)
        && words.next().is_some_and(is_hex)
        && words.next().is_some_and(|word| !word.starts_with('.'))
}

/// Parses the size in bytes from a line such as `; Size: 22 bytes. Origin: #xB800C6D920`.
fn size(line: &str) -> Option<u64> {
    line.strip_prefix("; Size: ")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_counts_and_sizes_are_parsed() {
        assert!(is_instruction("; 30:       8F4508           POP QWORD PTR [RBP+8]"));
        assert!(is_instruction("; 5D: L0:   48892C24         MOV [RSP], RBP"));
        assert!(!is_instruction("; 20:       .ENTRY F(X)"));
        assert!(!is_instruction("; Size: 22 bytes. Origin: #xB800C6D920"));
        assert_eq!(size("; Size: 22 bytes. Origin: #xB8 (segment 1 of 2)"), Some(22));
        assert_eq!(size("; disassembly for F"), None);
    }
}

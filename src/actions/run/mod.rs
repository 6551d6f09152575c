//! Implements the requests and tools that load or run code in the image: load systems and files,
//! evaluate forms, run tests, expand macros, disassemble, inspect objects, and report or restart
//! the Lisp process. Most requests are plain structs that implement `Question` or `Action`. The
//! implementation usually calls a Lisp function, parses the JSON report, and adds source positions
//! and symbol spellings. The `tool` submodule wraps the request as an MCP tool: arguments,
//! description, paging and text. `trial` holds the types for failures, backtraces and printed
//! values, which several requests share. `diagnostic` holds the type for compiler diagnostics.

pub mod compiler_notes;
pub(crate) mod diagnostic;
pub mod disassemble;
pub mod evaluate;
pub mod inspect;
pub mod list_systems;
pub(crate) mod load_file;
pub(crate) mod load_system;
pub mod macroexpand;
pub(crate) mod restart_lisp;
pub mod run_tests;
pub(crate) mod status;
pub mod trial;

#[cfg(test)]
mod tests {
    use crate::*;

    /// Library users can print these answers with `Display`, without calling a tool.
    #[test]
    fn answers_are_texts() {
        fn shown<T: std::fmt::Display>() {}
        shown::<AproposAnswer>();
        shown::<CompilerNotes>();
        shown::<DescribeSymbolAnswer>();
        shown::<Disassembly>();
        shown::<Evaluation>();
        shown::<FindDefinitionAnswer>();
        shown::<Indexed>();
        shown::<IndexStatus>();
        shown::<Inspection>();
        shown::<LoadAnswer>();
        shown::<MacroexpandAnswer>();
        shown::<PackageInfoAnswer>();
        shown::<References>();
        shown::<SystemsAnswer>();
        shown::<TestRun>();
    }
}

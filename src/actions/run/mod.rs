//! What runs code: loads, forms, tests, macros; and what Lisp says of itself.

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

    /// A program that calls no tool has the text of each answer all the same.
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

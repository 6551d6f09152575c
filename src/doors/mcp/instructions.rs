//! The instructions that the server gives to models.

/// The instructions that the server gives to models.
pub const INSTRUCTIONS: &str = "\
Common Lisp code intelligence from a live SBCL image inside this server: answers come from the compiler's own records, \
not from text search.

To understand: describe-symbol for a name that you do not know; apropos for one that you know in part; find-definition \
for its source; outline for a file, package or system (unused=true: dead code); package-info for a package. \
To see what uses a name: code-find-references has every use by line and column and how sure it is (exact, approximate, \
via a macro); who-calls, who-references, who-sets, who-binds, who-macroexpands and who-specializes the functions; \
call-graph and impact follow them further; find_references searches the text of any source tree, in many languages.

To change: load-system first, which runs the project's code (list-systems shows what there is). impact before an edit; \
rename renames everywhere and verifies that; edit-definition replaces one definition; check tries edits in a copy of the \
image; reload loads what has changed; run-tests tells what broke. Writing files needs a server that was started with \
--allow-edits, evaluate and inspect one with --allow-eval.

Also answered, though perhaps not listed: path, interface, who-makes, package-info, macroexpand, who-sets, who-binds, who-macroexpands, \
who-specializes, check-structure, compiler-notes, disassemble, inspect, load-file, status, restart-lisp.

Names are read as Lisp reads them: cl:mapcar, |Mixed Case|, (setf name). Without a prefix a name is looked up in \
`package`, else in CL-USER, else in the only package of the user that has it. Asking never defines, interns, loads or runs anything, except that \
printing a variable's value calls its print method. A name that does not exist is an ordinary answer. Long lists are cut, and say so. If Lisp has \
died or does not answer, status tells why.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_short_enough_for_hosts() {
        assert!(INSTRUCTIONS.len() <= 2048, "{}", INSTRUCTIONS.len());
    }
}

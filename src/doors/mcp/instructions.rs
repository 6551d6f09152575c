//! The server's instructions for models.

/// The server's instructions for models.
pub const INSTRUCTIONS: &str = "\
Common Lisp code intelligence from a live SBCL image inside this server: answers come from the compiler's own records, \
not from text search.

To understand code: describe-symbol for a name; apropos for a part of a name; find-definition for source; outline for a file, \
package or system (unused=true finds dead code); interface for the names that cross its boundary; macroexpand. To find uses: code-find-references lists each \
use by line and column with its certainty (exact, approximate, via a macro); who-calls lists callers; who-references lists \
readers, or with `type` who sets, binds, expands, specializes on or makes; call-graph, path and impact follow uses further; \
find_references searches the text of any source tree, in many languages.

To change code: first run load-system, which runs the project's code (list-systems lists the systems). Use impact before an \
edit. rename renames everywhere and verifies the result; edit-definition replaces one definition; check tries edits in a \
copy of the image; reload loads changed files; run-tests reports failures. Writing files requires a server started with \
--allow-edits; evaluate and inspect require --allow-eval.

The user can list more tools with `steelbank serve --tools all`: package-info, check-structure, compiler-notes, disassemble, \
inspect, load-file, status, restart-lisp.

Names are read as Lisp reads them: cl:mapcar, |Mixed Case|, (setf name). A name without a prefix is looked up in `package`, \
else in CL-USER, else in the only user package that has it. Queries never define, intern, load or run anything, except that \
printing a variable's value calls its print method. An unknown name is a normal answer, not an error. Long lists are cut, \
with a cursor for the rest.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_fit_host_limit() {
        assert!(INSTRUCTIONS.len() <= 2048, "{}", INSTRUCTIONS.len());
    }
}

//! The instructions that the server gives to models.

/// The instructions that the server gives to models.
pub const INSTRUCTIONS: &str = "\
Common Lisp code intelligence from a live SBCL image inside this server: answers come from the compiler's own records, \
not from text search.

Start with describe-symbol for any name that you do not know: what it is, its lambda list, documentation, and where it \
is defined. who-calls, who-macroexpands, who-references, who-sets, who-binds and who-specializes tell what uses it; \
ask them before you change or rename something.

Names are read as Lisp reads them: mapcar and MAPCAR are the same, cl:mapcar names its package, |Mixed Case| keeps its \
case, (setf name) is understood. Without a prefix a name is looked up in `package`; unless that is given, in CL-USER, or else in the only package of the user that has it. \
Asking never defines, interns, loads or runs anything, except that printing a variable's value calls its print method.

For the user's own project: load-system loads it, which runs its code; list-systems shows what there is to load. Then \
code-find-references lists every use of a symbol by line and column, with how sure that is (exact, approximate, or via \
a macro), and find-definition its definitions. rename renames a symbol everywhere and verifies that. find_references finds names in the text of any source tree, in many \
languages, without loading anything.

A name that does not exist is an ordinary answer that says so. Long lists are cut at `limit`, and say so. If Lisp has \
died or does not answer, `status` tells why; the who- tools keep answering.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_short_enough_for_hosts() {
        assert!(INSTRUCTIONS.len() <= 2048, "{}", INSTRUCTIONS.len());
    }
}

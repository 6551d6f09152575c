//! What the standard operators do with their elements, as far as the roles of symbols depend on it.

/// The place from which on the elements of a standard form are evaluated; None where that is not so simple, or where the
/// operator is not a standard one ("").
pub(super) fn first_evaluated(operator: &str) -> Option<u32> {
    match operator {
        "" => None,
        "IF"
        | "PROGN"
        | "PROG1"
        | "PROG2"
        | "WHEN"
        | "UNLESS"
        | "AND"
        | "OR"
        | "SETF"
        | "SETQ"
        | "PSETF"
        | "PSETQ"
        | "RETURN"
        | "MULTIPLE-VALUE-CALL"
        | "MULTIPLE-VALUE-LIST"
        | "MULTIPLE-VALUE-PROG1"
        | "NTH-VALUE"
        | "UNWIND-PROTECT"
        | "CATCH"
        | "THROW"
        | "PUSH"
        | "PUSHNEW"
        | "POP"
        | "INCF"
        | "DECF"
        | "IGNORE-ERRORS"
        | "LOCALLY"
        | "PROGV"
        | "TAGBODY"
        | "TIME"
        | "ASSERT" => Some(2),
        "LET"
        | "LET*"
        | "LAMBDA"
        | "DOLIST"
        | "DOTIMES"
        | "MULTIPLE-VALUE-BIND"
        | "DESTRUCTURING-BIND"
        | "FLET"
        | "LABELS"
        | "MACROLET"
        | "SYMBOL-MACROLET"
        | "EVAL-WHEN"
        | "THE"
        | "RETURN-FROM"
        | "BLOCK"
        | "DEFVAR"
        | "DEFPARAMETER"
        | "DEFCONSTANT"
        | "WITH-OPEN-FILE"
        | "WITH-SLOTS"
        | "WITH-ACCESSORS"
        | "WITH-OUTPUT-TO-STRING"
        | "WITH-INPUT-FROM-STRING"
        | "PRINT-UNREADABLE-OBJECT"
        | "DEFINE-SYMBOL-MACRO"
        | "DO-ALL-SYMBOLS"
        | "DO-EXTERNAL-SYMBOLS"
        | "DO-SYMBOLS"
        | "HANDLER-BIND"
        | "MULTIPLE-VALUE-SETQ"
        | "PROG"
        | "PROG*"
        | "RESTART-BIND"
        | "WITH-CONDITION-RESTARTS"
        | "WITH-OPEN-STREAM"
        | "WITH-SIMPLE-RESTART" => Some(3),
        "DO" | "DO*" | "DEFUN" | "DEFMACRO" | "DEFTYPE" | "DEFINE-COMPILER-MACRO" => Some(4),
        _ if operator.starts_with('&') || STANDARD_MACROS.contains(&operator) => None,
        _ => Some(2),
    }
}

/// The other standard macros and special operators; what remains of COMMON-LISP's operators are functions.
const STANDARD_MACROS: &[&str] = &[
    "CALL-METHOD",
    "CASE",
    "CCASE",
    "CHECK-TYPE",
    "COND",
    "CTYPECASE",
    "DECLAIM",
    "DECLARE",
    "DEFCLASS",
    "DEFGENERIC",
    "DEFINE-CONDITION",
    "DEFINE-METHOD-COMBINATION",
    "DEFINE-MODIFY-MACRO",
    "DEFINE-SETF-EXPANDER",
    "DEFMETHOD",
    "DEFPACKAGE",
    "DEFSETF",
    "DEFSTRUCT",
    "ECASE",
    "ETYPECASE",
    "FORMATTER",
    "FUNCTION",
    "GO",
    "HANDLER-CASE",
    "IN-PACKAGE",
    "LOAD-TIME-VALUE",
    "LOOP",
    "LOOP-FINISH",
    "PPRINT-EXIT-IF-LIST-EXHAUSTED",
    "PPRINT-LOGICAL-BLOCK",
    "PPRINT-POP",
    "QUOTE",
    "REMF",
    "RESTART-CASE",
    "ROTATEF",
    "SHIFTF",
    "STEP",
    "TRACE",
    "TYPECASE",
    "UNTRACE",
    "WITH-COMPILATION-UNIT",
    "WITH-HASH-TABLE-ITERATOR",
    "WITH-PACKAGE-ITERATOR",
    "WITH-STANDARD-IO-SYNTAX",
];

/// What LOOP compares by name.
pub(super) const LOOP_KEYWORDS: &[&str] = &[
    "ABOVE",
    "ACROSS",
    "ALWAYS",
    "AND",
    "APPEND",
    "APPENDING",
    "AS",
    "BEING",
    "BELOW",
    "BY",
    "COLLECT",
    "COLLECTING",
    "COUNT",
    "COUNTING",
    "DO",
    "DOING",
    "DOWNFROM",
    "DOWNTO",
    "EACH",
    "ELSE",
    "END",
    "EXTERNAL-SYMBOL",
    "EXTERNAL-SYMBOLS",
    "FINALLY",
    "FOR",
    "FROM",
    "HASH-KEY",
    "HASH-KEYS",
    "HASH-VALUE",
    "HASH-VALUES",
    "IF",
    "IN",
    "INITIALLY",
    "INTO",
    "IT",
    "MAXIMIZE",
    "MAXIMIZING",
    "MINIMIZE",
    "MINIMIZING",
    "NAMED",
    "NCONC",
    "NCONCING",
    "NEVER",
    "OF",
    "OF-TYPE",
    "ON",
    "PRESENT-SYMBOL",
    "PRESENT-SYMBOLS",
    "REPEAT",
    "RETURN",
    "SUM",
    "SUMMING",
    "SYMBOL",
    "SYMBOLS",
    "THE",
    "THEN",
    "THEREIS",
    "TO",
    "UNLESS",
    "UNTIL",
    "UPFROM",
    "UPTO",
    "USING",
    "WHEN",
    "WHILE",
    "WITH",
];

/// Whether the second element of a form with this standard operator is a name that it defines.
pub(super) fn defines(operator: &str) -> bool {
    matches!(
        operator,
        "DEFUN"
            | "DEFMACRO"
            | "DEFGENERIC"
            | "DEFMETHOD"
            | "DEFVAR"
            | "DEFPARAMETER"
            | "DEFCONSTANT"
            | "DEFCLASS"
            | "DEFINE-CONDITION"
            | "DEFTYPE"
            | "DEFSTRUCT"
            | "DEFINE-COMPILER-MACRO"
            | "DEFSETF"
            | "DEFINE-SETF-EXPANDER"
            | "DEFINE-MODIFY-MACRO"
            | "DEFINE-SYMBOL-MACRO"
            | "DEFINE-METHOD-COMBINATION"
    )
}

/// Whether the second element of a form with this standard operator is a list of variables and `(variable value)`.
pub(super) fn binds_list(operator: &str) -> bool {
    matches!(operator, "LET" | "LET*" | "DO" | "DO*" | "PROG" | "PROG*")
}

/// Whether the second element of a form with this standard operator is a list that starts with a variable.
pub(super) fn binds_first(operator: &str) -> bool {
    matches!(
        operator,
        "DOLIST"
            | "DOTIMES"
            | "DO-SYMBOLS"
            | "DO-ALL-SYMBOLS"
            | "DO-EXTERNAL-SYMBOLS"
            | "WITH-INPUT-FROM-STRING"
            | "WITH-OPEN-FILE"
            | "WITH-OPEN-STREAM"
            | "WITH-OUTPUT-TO-STRING"
    )
}

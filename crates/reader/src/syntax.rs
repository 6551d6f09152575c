//! Syntax tables: the meaning of each byte in each Lisp dialect.

/// The Lisp dialects that the structural reader supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// ANSI Common Lisp, standard readtable.
    CommonLisp,
    /// Emacs Lisp.
    EmacsLisp,
    /// Scheme, R5RS to R7RS, with Racket's brackets.
    Scheme,
    /// Clojure and ClojureScript.
    Clojure,
}

impl Dialect {
    /// Returns whether the reader ignores the case of symbols.
    pub fn folds_case(self) -> bool {
        self == Dialect::CommonLisp
    }

    /// Returns whether `byte` is whitespace.
    pub fn is_whitespace(self, byte: u8) -> bool {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => true,
            0x7f => self == Dialect::CommonLisp,
            b',' => self == Dialect::Clojure,
            _ => false,
        }
    }

    /// Returns whether `byte` ends a token although it is not whitespace.
    pub fn is_terminating(self, byte: u8) -> bool {
        match self {
            Dialect::CommonLisp => matches!(byte, b'"' | b'\'' | b'(' | b')' | b',' | b';' | b'`'),
            Dialect::EmacsLisp => {
                matches!(byte, b'"' | b'\'' | b'(' | b')' | b',' | b';' | b'`' | b'[' | b']')
            }
            Dialect::Scheme => {
                matches!(byte, b'"' | b'\'' | b'(' | b')' | b',' | b';' | b'`' | b'[' | b']' | b'{' | b'}')
            }
            Dialect::Clojure => matches!(
                byte,
                b'"' | b'(' | b')' | b';' | b'`' | b'[' | b']' | b'{' | b'}' | b'@' | b'^' | b'~' | b'\\'
            ),
        }
    }

    /// Returns whether `byte` can be part of an unescaped token. Bytes above ASCII can.
    pub fn is_constituent(self, byte: u8) -> bool {
        !self.is_whitespace(byte) && !self.is_terminating(byte)
    }

    /// Returns whether a backslash escapes the next character of a token.
    pub(crate) fn has_single_escape(self) -> bool {
        matches!(self, Dialect::CommonLisp | Dialect::EmacsLisp)
    }

    /// Returns whether `|` escapes the characters up to the next `|`.
    pub(crate) fn has_multiple_escape(self) -> bool {
        matches!(self, Dialect::CommonLisp | Dialect::Scheme)
    }

    /// Returns the byte that closes a list opened by `open`. `None` if `open` does not open a list.
    pub(crate) fn closing(self, open: u8) -> Option<u8> {
        match open {
            b'(' => Some(b')'),
            b'[' if self != Dialect::CommonLisp => Some(b']'),
            b'{' if matches!(self, Dialect::Clojure | Dialect::Scheme) => Some(b'}'),
            _ => None,
        }
    }

    /// Returns whether `byte` closes a list.
    pub(crate) fn is_closing(self, byte: u8) -> bool {
        match byte {
            b')' => true,
            b']' => self != Dialect::CommonLisp,
            b'}' => matches!(self, Dialect::Clojure | Dialect::Scheme),
            _ => false,
        }
    }
}

//! The syntax tables: the meaning of each byte in each Lisp.

/// The Lisps that the structural reader knows.
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
    /// Whether symbols are read without regard to case.
    pub fn folds_case(self) -> bool {
        self == Dialect::CommonLisp
    }

    /// Whether `byte` is whitespace for this reader.
    pub fn is_whitespace(self, byte: u8) -> bool {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => true,
            0x7f => self == Dialect::CommonLisp,
            b',' => self == Dialect::Clojure,
            _ => false,
        }
    }

    /// Whether `byte` ends a token although it is no whitespace.
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

    /// Whether `byte` can stand in an unescaped token of this Lisp. Bytes above ASCII can.
    pub fn is_constituent(self, byte: u8) -> bool {
        !self.is_whitespace(byte) && !self.is_terminating(byte)
    }

    /// Whether a backslash quotes the next character of a token.
    pub(crate) fn has_single_escape(self) -> bool {
        matches!(self, Dialect::CommonLisp | Dialect::EmacsLisp)
    }

    /// Whether `|` quotes the characters up to the next one.
    pub(crate) fn has_multiple_escape(self) -> bool {
        matches!(self, Dialect::CommonLisp | Dialect::Scheme)
    }

    /// The byte that closes what `open` opens, if it opens a list here.
    pub(crate) fn closing(self, open: u8) -> Option<u8> {
        match open {
            b'(' => Some(b')'),
            b'[' if self != Dialect::CommonLisp => Some(b']'),
            b'{' if matches!(self, Dialect::Clojure | Dialect::Scheme) => Some(b'}'),
            _ => None,
        }
    }

    /// Whether `byte` closes a list here.
    pub(crate) fn is_closing(self, byte: u8) -> bool {
        match byte {
            b')' => true,
            b']' => self != Dialect::CommonLisp,
            b'}' => matches!(self, Dialect::Clojure | Dialect::Scheme),
            _ => false,
        }
    }
}

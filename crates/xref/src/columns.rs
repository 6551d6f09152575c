//! The columns of every exported and baked table.
//!
//! `lisp/index/symbols.lisp` writes the exported tables; a test compares their widths with these.

/// A column of a table.
pub trait Column: Copy {
    /// The number of columns in the table.
    const WIDTH: usize;

    /// Returns the index of the column, from 0.
    fn index(self) -> usize;
}

macro_rules! columns {
    ($($(#[$table:meta])* $name:ident { $($(#[$doc:meta])* $column:ident,)+ })+) => {$(
        $(#[$table])*
        #[allow(missing_docs, reason = "some columns are explained by their names")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name {
            $($(#[$doc])* $column,)+
        }

        impl $name {
            /// All columns, in order.
            pub const ALL: &[Self] = &[$(Self::$column,)+];
        }

        impl Column for $name {
            const WIDTH: usize = Self::ALL.len();

            fn index(self) -> usize {
                self as usize
            }
        }
    )+};
}

columns! {
    /// A package; exported and baked.
    PackageColumn {
        Name,
        /// Its name as printed in the prefix of a symbol.
        Printed,
        /// Its number in the base index; empty if it is not in the base.
        Baseline,
        /// 1 if it has the same symbols as in the base index.
        Unchanged,
    }
    /// A nickname.
    NicknameColumn {
        Package,
        Nickname,
    }
    /// A use of a package.
    UseColumn {
        /// The using package.
        Package,
        /// The used package.
        Used,
    }
    /// A package-local nickname; exported and baked.
    LocalNicknameColumn {
        /// The package that defines the nickname.
        Package,
        Nickname,
        /// The package that the nickname refers to.
        Actual,
    }
    /// An exported symbol.
    SymbolColumn {
        /// Its home package.
        Home,
        Name,
        /// Its printed name, if it differs from `Name`.
        Printed,
    }
    /// A baked symbol. One additional row at the end holds the ends of the last symbol's ranges.
    BakedSymbolColumn {
        /// Its home package.
        Home,
        Name,
        /// Its printed name, if it differs from `Name`.
        Printed,
        /// The index of its first presence.
        FirstPresence,
        /// The index of its first used name.
        FirstName,
    }
    /// The presence of a symbol in a package, exported.
    PresenceColumn {
        Package,
        Symbol,
        /// 1 if it is external.
        External,
    }
    /// The presence of a symbol in a package, baked: grouped by symbol.
    BakedPresenceColumn {
        Package,
        /// 1 if it is external.
        External,
    }
    /// A used name, exported.
    NameColumn {
        /// Its principal symbol.
        Symbol,
        /// The number of a [`crate::NameRole`]: how the name is built from its principal symbol.
        Role,
        /// Its printed form, unless it is just the symbol.
        Text,
    }
    /// A used name, baked: grouped by principal symbol.
    BakedNameColumn {
        /// The number of a [`crate::NameRole`]: how the name is built from its principal symbol.
        Role,
        /// Its printed form, unless it is just the symbol.
        Text,
    }
    /// A source file; exported and baked.
    SourceColumn {
        Path,
        /// The low 32 bits of its write date, a universal time.
        WrittenLow,
        /// The high 32 bits of its write date.
        WrittenHigh,
    }
    /// A function; exported and baked. Baked functions are sorted by printed principal symbol, then
    /// by printed name.
    FunctionColumn {
        /// Its printed name.
        Text,
        /// Its principal symbol.
        Symbol,
        /// The number of a [`crate::FunctionKind`].
        Kind,
        /// The source file that it was compiled from.
        Source,
        /// The index of the top-level form that contains it, from 0.
        Form,
        /// The start of that form, as an offset in bytes.
        Offset,
        /// The serial number of its code object; empty for a method.
        Serial,
        /// Its entry in the code object, or the method's number.
        Entry,
        /// Whether it is still the definition of its name: unknown, current or replaced.
        Status,
    }
    /// An exported record.
    RecordColumn {
        /// The kind of use: the number of a [`crate::Kind`].
        Kind,
        /// The used name.
        Name,
        /// The using function.
        Function,
        /// The form number of the use.
        Form,
    }
    /// A baked record: grouped by name and kind.
    BakedRecordColumn {
        Function,
        /// The form number.
        Form,
    }
    /// The current status of a function that was exported before.
    SurvivorColumn {
        /// The serial number of its code object.
        Serial,
        Entry,
        /// Its current status.
        Status,
    }
    /// A function of the base index that is no longer the definition of its name, or a removed
    /// method.
    RefutedColumn {
        /// The serial number of its code object; empty for a method.
        Serial,
        Entry,
    }
}

//! The columns of every table, by name: what Lisp exports, and what is baked from it.
//!
//! `lisp/index/symbols.lisp` makes the exported tables; a test compares their widths with these.

/// A column of a table.
pub trait Column: Copy {
    /// How many columns its table has.
    const WIDTH: usize;

    /// Which of them this is, from 0.
    fn index(self) -> usize;
}

macro_rules! columns {
    ($($(#[$table:meta])* $name:ident { $($(#[$doc:meta])* $column:ident,)+ })+) => {$(
        $(#[$table])*
        #[allow(missing_docs, reason = "some columns are told by their names")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name {
            $($(#[$doc])* $column,)+
        }

        impl $name {
            /// All of them, in their order.
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
        /// Its name as a symbol's prefix is printed.
        Printed,
        /// Its number in the baseline.
        Baseline,
        /// 1 if its symbols are those of the baseline.
        Unchanged,
    }
    /// A nickname.
    NicknameColumn {
        Package,
        Nickname,
    }
    /// A use of a package.
    UseColumn {
        /// The package that uses.
        Package,
        /// The package that is used.
        Used,
    }
    /// A package-local nickname; exported and baked.
    LocalNicknameColumn {
        /// The package in which it holds.
        Package,
        Nickname,
        /// The package that it means.
        Actual,
    }
    /// A symbol as it is exported.
    SymbolColumn {
        /// Its home package.
        Home,
        Name,
        /// Its printed name, if that differs.
        Printed,
    }
    /// A symbol as it is baked. One row more than there are symbols ends the last one's ranges.
    BakedSymbolColumn {
        /// Its home package.
        Home,
        Name,
        /// Its printed name, if that differs.
        Printed,
        /// Its first row among the presences.
        FirstPresence,
        /// Its first row among the used names.
        FirstName,
    }
    /// A symbol's presence in a package, as it is exported.
    PresenceColumn {
        Package,
        Symbol,
        /// 1 if it is external.
        External,
    }
    /// A symbol's presence in a package, as it is baked: grouped by symbol.
    BakedPresenceColumn {
        Package,
        /// 1 if it is external.
        External,
    }
    /// A used name, as it is exported.
    NameColumn {
        /// Its principal symbol.
        Symbol,
        /// How it is made from that symbol: a number of [`crate::NameRole`].
        Role,
        /// Its printed form, unless it is that symbol.
        Text,
    }
    /// A used name, as it is baked: grouped by principal symbol.
    BakedNameColumn {
        /// How it is made from its symbol: a number of [`crate::NameRole`].
        Role,
        /// Its printed form, unless it is that symbol.
        Text,
    }
    /// A source file; exported and baked.
    SourceColumn {
        Path,
        /// Its write date, as a universal time: the low 32 bits.
        WrittenLow,
        /// The high 32 bits.
        WrittenHigh,
    }
    /// A function; exported and baked, where it is in the order of answers.
    FunctionColumn {
        /// Its printed name.
        Text,
        /// Its principal symbol.
        Symbol,
        /// What it is: a number of [`crate::FunctionKind`].
        Kind,
        /// The file that it was compiled from.
        Source,
        /// The top-level form that it stands in, from 0.
        Form,
        /// Where that form starts, in bytes.
        Offset,
        /// The serial number of its code object; none for a method.
        Serial,
        /// Its entry in the code object, or the method's number.
        Entry,
        /// Whether it is what its name means: unknown, current, replaced.
        Status,
    }
    /// A record, as it is exported.
    RecordColumn {
        /// The kind of use: a number of [`crate::Kind`].
        Kind,
        /// The used name.
        Name,
        /// The function that uses it.
        Function,
        /// The form number of the use.
        Form,
    }
    /// A record, as it is baked: grouped by name and kind.
    BakedRecordColumn {
        Function,
        /// The form number.
        Form,
    }
    /// The present status of a function that was exported before.
    SurvivorColumn {
        /// Its code object's serial number.
        Serial,
        Entry,
        /// Its status now.
        Status,
    }
    /// A function of the baseline that its name no longer means.
    RefutedColumn {
        /// Its code object's serial number.
        Serial,
        Entry,
    }
}

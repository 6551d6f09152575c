//! The `words!` macro, which declares enums that are single words in JSON.

/// Declares an enum with a JSON name for each variant. Implements `name`, `Display` and
/// `JsonSchema`; the schema is that of a string. With `or`, the enum is open: the last variant
/// holds any other word. Otherwise, the constant `ALL` lists the variants.
macro_rules! words {
    ($(#[$about:meta])* $list:ident { $($(#[$case_about:meta])* $case:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub enum $list {
            $($(#[$case_about])* #[serde(rename = $word)] $case,)*
        }

        impl $list {
            /// All variants.
            #[allow(dead_code, reason = "not every enum is iterated")]
            pub(crate) const ALL: &[Self] = &[$(Self::$case),*];

            /// Returns the name, as in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$case => $word,)*
                }
            }
        }

        words!(@shown $list);
    };
    ($(#[$about:meta])* $list:ident { $($(#[$case_about:meta])* $case:ident = $word:literal,)* }
     or $(#[$other_about:meta])* $other:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[non_exhaustive]
        pub enum $list {
            $($(#[$case_about])* #[serde(rename = $word)] $case,)*
            $(#[$other_about])*
            #[serde(untagged)]
            $other(String),
        }

        impl $list {
            /// Returns the name, as in JSON.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$case => $word,)*
                    Self::$other(name) => name,
                }
            }
        }

        words!(@shown $list);
    };
    (@shown $list:ident) => {
        impl std::fmt::Display for $list {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl schemars::JsonSchema for $list {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($list).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "the enums are used only in this test")]

    words! {
        /// Closed.
        Closed {
            /// One.
            One = "the-one",
        }
    }

    words! {
        /// Open.
        Open {
            /// One.
            One = "the-one",
        } or
        /// Another.
        Other
    }

    #[test]
    fn json_and_display_use_the_name() {
        assert_eq!(serde_json::to_string(&Closed::One).unwrap(), "\"the-one\"");
        assert_eq!(format!("{}", Closed::One), "the-one");
        assert!(serde_json::from_str::<Closed>("\"two\"").is_err());
        for (word, case) in [("the-one", Open::One), ("two", Open::Other("two".to_owned()))] {
            let json = format!("\"{word}\"");
            assert_eq!(serde_json::from_str::<Open>(&json).unwrap(), case);
            assert_eq!((serde_json::to_string(&case).unwrap(), case.name()), (json, word));
        }
        let schema = |schema: schemars::Schema| serde_json::to_value(schema).unwrap();
        assert_eq!(
            schema(schemars::schema_for!(Vec<Open>))["items"],
            schema(schemars::schema_for!(Vec<String>))["items"]
        );
    }
}

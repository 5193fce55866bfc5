//! Core: enumerations whose values are words.

/// An enumeration in which each value stands once, with its word on the wire, in documents and in lists.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$of_value:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        pub enum $name { $($(#[$of_value])* $value,)+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// Its word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

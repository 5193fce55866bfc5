//! Core: types that documents and messages hold as text.

/// Lets serde hold a type as the text that its `FromStr` reads and its `Display` shows. The type
/// says `#[serde(try_from = "String", into = "String")]`.
#[macro_export]
macro_rules! text_form {
    ($name:ty) => {
        impl TryFrom<String> for $name {
            type Error = <$name as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}

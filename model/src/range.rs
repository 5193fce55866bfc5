//! Core: the range of a number: the smallest and the largest value that it may have.

use std::fmt;

/// The smallest and the largest value of a number; its text is `1 to 1,000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The smallest.
    pub min: i32,
    /// The largest.
    pub max: i32,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", grouped(self.min), grouped(self.max))
    }
}

/// A number with commas between its thousands, as people write it.
fn grouped(number: i32) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} is {value}; it must be {range}")]
pub struct OutOfRange {
    parameter: String,
    value: String,
    range: Range,
}

impl OutOfRange {
    /// The same, of a parameter inside `outer`.
    pub fn within(self, outer: impl fmt::Display) -> Self {
        Self { parameter: format!("{outer}.{}", self.parameter), ..self }
    }
}

/// One number, or all of the numbers of a list; nothing where there is none.
pub(crate) trait Numbers {
    /// The first one outside `range`, as it is written.
    fn outside(&self, range: Range) -> Option<String>;
}

macro_rules! whole_numbers {
    ($($number:ty)+) => {
        $(impl Numbers for $number {
            fn outside(&self, Range { min, max }: Range) -> Option<String> {
                let within = (i64::from(min)..=i64::from(max)).contains(&i64::from(*self));
                (!within).then(|| self.to_string())
            }
        })+
    };
}

whole_numbers!(u8 u16 u32 i64);

impl Numbers for f64 {
    fn outside(&self, Range { min, max }: Range) -> Option<String> {
        let within = (Self::from(min)..=Self::from(max)).contains(self);
        // This form keeps 1e308 short.
        (!within).then(|| format!("{self:?}"))
    }
}

impl<T: Numbers> Numbers for Option<T> {
    fn outside(&self, range: Range) -> Option<String> {
        self.as_ref().and_then(|number| number.outside(range))
    }
}

impl<T: Numbers> Numbers for Vec<T> {
    fn outside(&self, range: Range) -> Option<String> {
        self.iter().find_map(|number| number.outside(range))
    }
}

/// Refuses `number` where it is outside `range`.
pub(crate) fn check(
    parameter: &str,
    number: &impl Numbers,
    range: Range,
) -> Result<(), OutOfRange> {
    let wrong = |value| OutOfRange { parameter: parameter.to_owned(), value, range };
    number.outside(range).map(wrong).map_or(Ok(()), Err)
}

/// Gives types the ranges of their numbers; a name in quotes is the one that clients use.
macro_rules! ranges {
    ($($of:ty { $($field:ident $($name:literal)?: $min:literal to $max:expr,)+ })+) => {
        $(impl $of {
            /// The numbers with their ranges.
            pub const RANGES: &[(&'static str, $crate::range::Range)] = &[$((
                ranges!(@name $field $($name)?),
                $crate::range::Range { min: $min, max: $max },
            ),)+];

            /// Refuses a number that is outside its range.
            ///
            /// # Errors
            /// The first such number.
            pub fn check_ranges(&self) -> Result<(), $crate::range::OutOfRange> {
                use $crate::range::{Range, check};
                $(check(
                    ranges!(@name $field $($name)?),
                    &self.$field,
                    Range { min: $min, max: $max },
                )?;)+
                Ok(())
            }
        })+
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}
pub(crate) use ranges;

/// The highest rack number: a network of 2^24 addresses holds 65,536 racks of 256 each.
pub const RACK_MAX: i32 = 65_535;
/// Most candidates of a cluster: the master sends every commit to each of them.
pub const CANDIDATE_POOL_MAX: i32 = 64;
/// The longest prefix of any address.
pub const PREFIX_MAX: i32 = 128;

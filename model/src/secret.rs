//! Core: values that must not be seen.

use std::fmt;

use zeroize::Zeroize;

/// A value that never prints, logs, or serialises, and whose memory is wiped.
///
/// There is no `Serialize`: what must cross a wire says so with [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> Secret<T> {
    /// Hides `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value; the caller answers for where it goes.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_prints() {
        assert_eq!(format!("{:?}", Secret::new("hunter2".to_owned())), "Secret(…)");
    }
}

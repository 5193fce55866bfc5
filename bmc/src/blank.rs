//! Core: values of firmware that say nothing.

use model::Serial;

/// Whether a value says nothing: makers leave placeholders in any field as they do in serial numbers.
pub(crate) fn is_blank(text: &str) -> bool {
    let placeholder = text.trim().parse().is_ok_and(|text: Serial| text.placeholder().is_some());
    placeholder || text.trim().is_empty()
}

//! Core: the order of names in which people count: `n2` before `n10`.

use std::cmp::Ordering;

/// How two names compare: runs of digits as numbers, everything between them as text.
pub fn compare(one: &str, other: &str) -> Ordering {
    let (mut one_rest, mut other_rest) = (one, other);
    loop {
        let (a, b) = (run(&mut one_rest), run(&mut other_rest));
        let order = match (is_number(a), is_number(b)) {
            (true, true) => numbers(a, b),
            _ => a.cmp(b),
        };
        if order.is_ne() {
            return order;
        }
        if a.is_empty() && b.is_empty() {
            return one.cmp(other);
        }
    }
}

/// Takes what is of one sort from the front: digits, or anything else.
fn run<'t>(rest: &mut &'t str) -> &'t str {
    let is_digit = rest.starts_with(|c: char| c.is_ascii_digit());
    let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
    let (run, after) = rest.split_at(end);
    *rest = after;
    run
}

fn is_number(run: &str) -> bool {
    run.starts_with(|c: char| c.is_ascii_digit())
}

/// Whole numbers of any length.
fn numbers(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_count() {
        let sorted =
            ["", "1", "02", "2", "10", "n", "n1", "n1.a", "n2", "n10", "n10a", "n-1", "nn"];
        for pair in sorted.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
        assert_eq!(
            compare("n99999999999999999999999", "n100000000000000000000000"),
            Ordering::Less
        );
    }

    proptest! {
        #[test]
        fn it_is_an_order(a in "[a0-2.]{0,6}", b in "[a0-2.]{0,6}", c in "[a0-2.]{0,6}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &b).is_eq(), a == b);
            if compare(&a, &b).is_lt() && compare(&b, &c).is_lt() {
                prop_assert_eq!(compare(&a, &c), Ordering::Less);
            }
        }
    }
}

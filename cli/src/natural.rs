//! Core: names in the order that a reader expects: `n2` before `n10`.

/// Sorts by groups of digits, as numbers, and of other characters, as text.
pub(crate) fn sort(names: &mut [String]) {
    names.sort_by_cached_key(|name| groups(name));
}

/// A piece of a name; a number is before text.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// Digits without leading zeros: how many, and which.
    Number(usize, String),
    Text(String),
}

fn groups(name: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (group, others) = rest.split_at(end);
        rest = others;
        groups.push(if is_number {
            let digits = group.trim_start_matches('0');
            Group::Number(digits.len(), digits.to_owned())
        } else {
            Group::Text(group.to_owned())
        });
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let mut names = ["a10", "b", "a2", "a", "10", "a2b", "9", "a02a"].map(str::to_owned);
        sort(&mut names);
        assert_eq!(names, ["9", "10", "a", "a2", "a02a", "a2b", "a10", "b"]);
    }
}

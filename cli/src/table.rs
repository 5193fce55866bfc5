//! Core: columns of text, as Ganeti prints them.

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// What stands over it.
    pub(crate) title: String,
    /// Whether its values end, and not begin, under one another.
    pub(crate) right: bool,
}

/// The table as lines. Columns are joined by one blank and padded, but for a last one that begins
/// at the left; or joined by `separator` and not padded at all.
pub(crate) fn lines(
    columns: &[Column],
    rows: &[Vec<String>],
    headers: bool,
    separator: Option<&str>,
) -> Vec<String> {
    let titles: Vec<String> = columns.iter().map(|column| column.title.clone()).collect();
    let all = headers.then_some(&titles).into_iter().chain(rows);
    if let Some(separator) = separator {
        return all.map(|row| row.join(separator)).collect();
    }
    let width = |text: &String| text.chars().count();
    let mut widths = vec![0; columns.len()];
    for row in all.clone() {
        for (known, text) in widths.iter_mut().zip(row) {
            *known = width(text).max(*known);
        }
    }
    let last = columns.len().saturating_sub(1);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(columns).zip(&widths).enumerate();
        let cells = cells.map(|(at, ((text, column), &width))| match (column.right, at == last) {
            (true, _) => format!("{text:>width$}"),
            (false, true) => text.clone(),
            (false, false) => format!("{text:<width$}"),
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    all.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment() {
        let column = |title: &str, right| Column { title: title.to_owned(), right };
        let columns = [column("ID", true), column("Status", false), column("Summary", false)];
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["7", "success", "TEST_DELAY(1)"]), row(["1042", "ärror", "x"])];
        let expected = ["  ID Status  Summary", "   7 success TEST_DELAY(1)", "1042 ärror   x"];
        assert_eq!(lines(&columns, &rows, true, None), expected);
        assert_eq!(lines(&columns, &rows, false, None)[0], "   7 success TEST_DELAY(1)");
        assert_eq!(lines(&columns, &rows, true, Some("|"))[2], "1042|ärror|x");
        let columns = [column("Name", false), column("N", true)];
        let rows = [vec!["a".to_owned(), "10".to_owned()]];
        assert_eq!(lines(&columns, &rows, true, None), ["Name  N", "a    10"]);
    }
}

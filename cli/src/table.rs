//! Core: columns of text, as Ganeti prints them. Columns are as wide as a terminal shows them.

use std::borrow::Cow;

use stdx::text::line;
use unicode_width::UnicodeWidthStr as _;

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
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
    // A cell is a part of one line, whatever it holds.
    let all: Vec<Vec<Cow<'_, str>>> =
        all.map(|row| row.iter().map(|cell| line(cell)).collect()).collect();
    if let Some(separator) = separator {
        return all.iter().map(|row| row.join(separator)).collect();
    }
    let mut widths = vec![0; columns.len()];
    for row in &all {
        for (known, text) in widths.iter_mut().zip(row) {
            *known = text.width().max(*known);
        }
    }
    let last = columns.len().saturating_sub(1);
    let padded = |row: &Vec<Cow<'_, str>>| {
        let cells = row.iter().zip(columns).zip(&widths).enumerate();
        let cells = cells.map(|(at, ((text, column), &width))| {
            let pad = " ".repeat(width.saturating_sub(text.width()));
            match (column.right, at == last) {
                (true, _) => format!("{pad}{text}"),
                (false, true) => text.to_string(),
                (false, false) => format!("{text}{pad}"),
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    all.iter().map(padded).collect()
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

    #[test]
    fn a_row_is_one_line_and_columns_are_as_wide_as_they_look() {
        let column = |title: &str| Column { title: title.to_owned(), right: false };
        let columns = [column("Tag"), column("Summary")];
        let row = |tag: &str, summary: &str| vec![tag.to_owned(), summary.to_owned()];
        let rows = [
            row("漢字", "A(a\nb)"),
            row("e\u{301}e\u{301}", "\u{1b}[2J\u{9b}2J"),
            row("x\ty", "B"),
            row("👩‍🔬", "\u{202e}C"),
        ];
        let shown = [
            "Tag  Summary",
            "漢字 A(a\\nb)",
            "e\u{301}e\u{301}   \\x1b[2J\\x9b2J",
            "x\\ty B",
            "👩\u{200d}🔬   \\u202eC",
        ];
        assert_eq!(lines(&columns, &rows, true, None), shown);
        assert_eq!(lines(&columns, &rows, false, Some("\t"))[0], "漢字\tA(a\\nb)");
    }
}

//! Core: the list of jobs for a reader: colours by status, age, duration, owner.

use luxi::query::{Cell, Table};
use serde_json::Value;

use crate::table::{self, Column};
use crate::{moment, python};

/// The fields to ask for.
pub(crate) const FIELDS: [&str; 8] =
    ["id", "status", "received_ts", "start_ts", "end_ts", "owner", "summary", "depends"];
/// The column of the status.
const STATUS: usize = 1;

/// How the list is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobTable {
    /// Whether titles stand over the columns.
    pub(crate) headers: bool,
    /// Whether colours are used.
    pub(crate) colored: bool,
}

impl JobTable {
    /// The list as lines, at the time `now` in microseconds since the epoch.
    pub(crate) fn lines(self, table: &Table, now: i64) -> Vec<String> {
        let at = |name: &str| table.fields.iter().position(|field| field.name == name);
        let cell = |row: &'_ [Cell], name: &str| {
            at(name).and_then(|at| row.get(at)?.value().cloned()).unwrap_or_default()
        };
        let mut columns = vec![
            ("ID", true),
            ("Status", false),
            ("Age", true),
            ("Duration", true),
            ("Owner", false),
            ("Summary", false),
        ];
        // A master that does not know owners has nothing to show in their column.
        let owner = columns.iter().position(|(title, _)| *title == "Owner");
        let has_owners = table.data.iter().any(|row| cell(row, "owner").is_string());
        let dropped = owner.filter(|_| !has_owners);
        let mut rows: Vec<Vec<String>> = table
            .data
            .iter()
            .map(|row| {
                let moment = |name: &str| moment::micros(&cell(row, name));
                let since = |begin: Option<i64>, end: i64| {
                    begin.map_or_else(|| "-".to_owned(), |begin| moment::span(end - begin))
                };
                let summary = cell(row, "summary");
                let summary: Vec<String> =
                    summary.as_array().into_iter().flatten().map(python::text).collect();
                let archived = cell(row, "archived") == Value::Bool(true);
                let behind = behind(&cell(row, "depends"));
                vec![
                    python::text(&cell(row, "id")),
                    python::text(&cell(row, "status")),
                    since(moment("received_ts"), now),
                    since(moment("start_ts"), moment("end_ts").unwrap_or(now)),
                    cell(row, "owner").as_str().unwrap_or("-").to_owned(),
                    format!(
                        "{}{behind}{}",
                        summary.join(","),
                        if archived { " (archived)" } else { "" }
                    ),
                ]
            })
            .collect();
        if let Some(dropped) = dropped {
            columns.remove(dropped);
            rows.iter_mut().for_each(|row| drop(row.remove(dropped)));
        }
        let columns: Vec<Column> = columns
            .into_iter()
            .map(|(title, right)| Column { title: title.to_owned(), right })
            .collect();
        let lines = table::lines(&columns, &rows, self.headers, None);
        if !self.colored {
            return lines;
        }
        let titles = usize::from(self.headers);
        let color = |(at, line): (usize, String)| match at.checked_sub(titles) {
            None => format!("\x1b[1m{line}\x1b[0m"),
            Some(row) => painted(&line, rows.get(row).and_then(|row| row.get(STATUS))),
        };
        lines.into_iter().enumerate().map(color).collect()
    }
}

/// The jobs that one begins behind, as its summary ends with them.
fn behind(jobs: &Value) -> String {
    let jobs: Vec<String> = jobs.as_array().into_iter().flatten().map(python::text).collect();
    if jobs.is_empty() { String::new() } else { format!(" (behind {})", jobs.join(", ")) }
}

/// The line with its status in its colour.
fn painted(line: &str, status: Option<&String>) -> String {
    let Some(status) = status else { return line.to_owned() };
    let color = match status.as_str() {
        "success" => 32,
        "error" => 31,
        "canceled" | "canceling" => 33,
        "running" => 36,
        "waiting" => 35,
        _ => 34,
    };
    // The number before it has no letters, so that the first place is the right one.
    line.replacen(status.as_str(), &format!("\x1b[{color}m{status}\x1b[0m"), 1)
}

#[cfg(test)]
mod tests {
    use luxi::query::{CellStatus, FieldDefinition, FieldKind};
    use serde_json::json;

    use super::*;

    fn table(owner: Cell) -> Table {
        let field = |name| FieldDefinition::new(name, "T", FieldKind::Other, "");
        let row = |cells: [Value; 5], owner: &Cell, summary: Value| {
            let mut row: Vec<Cell> = cells.into_iter().map(Cell::normal).collect();
            row.push(owner.clone());
            row.push(Cell::normal(summary));
            row
        };
        let ended = [json!(7), json!("success"), json!([100, 0]), json!([100, 0]), json!([103, 0])];
        let runs = [json!(12), json!("running"), json!([100, 0]), json!([160, 0]), json!(null)];
        let waits = [json!(13), json!("queued"), json!([190, 0]), json!(null), json!(null)];
        let mut waits = row(waits, &owner, json!(["D"]));
        waits.push(Cell::normal(json!([12])));
        Table {
            fields: FIELDS.into_iter().map(field).collect(),
            data: vec![
                row(ended, &owner, json!(["A(1)", "B"])),
                row(runs, &owner, json!(["C"])),
                waits,
            ],
        }
    }

    #[test]
    fn columns() {
        let board = JobTable { headers: true, colored: false };
        let shown = board.lines(&table(Cell::normal("root")), 200_000_000);
        let expected = [
            "ID Status    Age Duration Owner Summary",
            " 7 success 1 min      3 s root  A(1),B",
            "12 running 1 min     40 s root  C",
            "13 queued   10 s        - root  D (behind 12)",
        ];
        assert_eq!(shown, expected);
        let shown = board.lines(&table(Cell::without(CellStatus::Unknown)), 200_000_000);
        assert_eq!(shown[1], " 7 success 1 min      3 s A(1),B");
    }

    #[test]
    fn colors_change_nothing_else() {
        let table = table(Cell::normal("root"));
        let plain = JobTable { headers: true, colored: false }.lines(&table, 200_000_000);
        let colored = JobTable { headers: true, colored: true }.lines(&table, 200_000_000);
        assert!(colored[1].contains("\x1b[32msuccess\x1b[0m"));
        let without = regex::Regex::new("\x1b\\[[0-9]+m").unwrap();
        let stripped: Vec<_> =
            colored.iter().map(|line| without.replace_all(line, "").into_owned()).collect();
        assert_eq!(stripped, plain);
    }
}

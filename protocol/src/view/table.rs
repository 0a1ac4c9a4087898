//! What a table holds, before it is laid out.

/// A titled table of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Column headings, with their alignment. A table of facts has none.
    pub columns: Vec<Column>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// Headings of columns that a narrow terminal does without, the least important first.
    pub dispensable: Vec<&'static str>,
}

/// A column's heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub heading: &'static str,
    /// Which side its cells stand on.
    pub align: Align,
}

/// Which side a cell stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    /// A table with headings. A heading that starts with `<` is of a column of text.
    pub fn with_columns(title: impl Into<String>, headings: &[&'static str]) -> Self {
        let columns = headings
            .iter()
            .map(|heading| match heading.strip_prefix('<') {
                Some(heading) => Column { heading, align: Align::Left },
                None => Column { heading, align: Align::Right },
            })
            .collect();
        Self { title: title.into(), columns, ..Self::default() }
    }

    /// A table of names and values.
    pub fn facts<'a>(
        title: impl Into<String>,
        facts: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        let rows = facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        Self { title: title.into(), rows, ..Self::default() }
    }

    /// The table without as many dispensable columns as it takes to fit, and which those were. The
    /// last column counts as no wider than `last`: it is text that may be cut.
    pub fn fitted(&self, width: usize, last: usize) -> (Self, Vec<&'static str>) {
        let mut table = self.clone();
        let mut without = Vec::new();
        for heading in &self.dispensable {
            if table.width(last) <= width {
                break;
            }
            let index = table.columns.iter().position(|column| column.heading == *heading);
            if let Some(index) = index {
                table.columns.remove(index);
                for row in &mut table.rows {
                    if index < row.len() {
                        row.remove(index);
                    }
                }
                without.push(*heading);
            }
        }
        (table, without)
    }

    /// Characters in the widest line, two between columns.
    fn width(&self, last: usize) -> usize {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = self.rows.iter().filter_map(|row| row.get(index));
                let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
                widest.max(column.heading.chars().count())
            })
            .collect();
        let text = widths.last().map_or(0, |width| (*width).min(last));
        let others: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
        others + text
    }
}

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
        Self { title: title.into(), columns, rows: Vec::new() }
    }

    /// A table of names and values.
    pub fn facts<'a>(
        title: impl Into<String>,
        facts: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        let rows = facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        Self { title: title.into(), columns: Vec::new(), rows }
    }
}

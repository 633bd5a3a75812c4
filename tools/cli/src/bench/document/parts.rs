//! What a report consists of, before it becomes HTML or Markdown.

/// A report.
pub struct Document {
    /// Its heading.
    pub title: String,
    /// Its parts.
    pub blocks: Vec<Block>,
}

/// A part of it.
pub enum Block {
    /// Of what follows.
    Heading(&'static str),
    /// A paragraph.
    Text(String),
    /// What a reader must not miss.
    Warning(String),
    /// Rows and columns.
    Table(Table),
    /// A plot.
    Picture(Picture),
}

/// Rows under a header; columns of numbers are aligned to the right.
pub struct Table {
    /// Names of the columns.
    pub header: &'static [Column],
    /// As long as the header, each.
    pub rows: Vec<Vec<Cell>>,
}

/// A column's header.
pub enum Column {
    /// Of words.
    Text(&'static str),
    /// Of numbers.
    Number(&'static str),
}

impl Column {
    /// Its text.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Text(name) | Self::Number(name) => name,
        }
    }
}

/// A field of a table.
pub struct Cell {
    /// What it says.
    pub text: String,
    /// How it looks.
    pub mark: Mark,
}

/// What a field has to tell at a glance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    Plain,
    /// A target that is met.
    Good,
    /// A target that is missed, a failure.
    Bad,
}

/// A plot: `name` is for a file, of letters, digits and `-`.
pub struct Picture {
    /// For its file.
    pub name: String,
    /// What is seen.
    pub caption: String,
    /// The plot.
    pub svg: String,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, mark: Mark::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

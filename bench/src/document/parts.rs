//! Parts of a report, before they become HTML or Markdown.

/// A report.
pub struct Document {
    /// Heading of the report.
    pub title: String,
    /// Blocks of the report, in order.
    pub blocks: Vec<Block>,
}

/// A part of a report.
pub enum Block {
    /// A heading of the blocks that follow.
    Heading(&'static str),
    /// A paragraph.
    Text(String),
    /// A paragraph that a reader must not miss.
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
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<Cell>>,
}

/// A column's header.
pub enum Column {
    /// Header of a column of words.
    Text(&'static str),
    /// Header of a column of numbers.
    Number(&'static str),
}

impl Column {
    /// Text of the header.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Text(name) | Self::Number(name) => name,
        }
    }
}

/// A field of a table.
pub struct Cell {
    /// Text of the field.
    pub text: String,
    /// Appearance of the field.
    pub mark: Mark,
}

/// Judgement that a field's colour shows.
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
    /// Part of the name of the plot's file.
    pub name: String,
    /// Description of the plot for the reader.
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

//! How an answer looks: as JSON for a program or a model, as tables for a person.
//!
//! Pure functions from report to text, here because the controller and `probe-agent --local` show
//! the same.

pub mod capabilities;
pub mod json;
pub mod nulls;
pub mod quantity;
pub mod table;
pub mod text;

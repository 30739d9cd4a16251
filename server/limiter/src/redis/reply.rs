//! What a script answers: a word, then values.

use ::redis::Value;

use crate::admission::LimiterError;

/// The first word of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Admit,
    Kept,
    Refuse,
    Expired,
    Done,
    Stands,
    Audit,
    /// The counters are not there.
    Cold,
    /// Some meters are not there.
    Unknown,
    /// What is not there was there.
    Lost,
    /// The counters are of a newer epoch.
    Stale,
}

/// An answer, read from its front to its end.
#[derive(Debug)]
pub(super) struct Reply {
    word: String,
    rest: std::vec::IntoIter<Value>,
}

impl Reply {
    pub(super) fn new(value: Value) -> Result<Self, LimiterError> {
        let Value::Array(values) = value else {
            return Err(LimiterError::Unreadable("a script answered with no list".to_owned()));
        };
        let mut rest = values.into_iter();
        let word = rest.next().map(text).transpose()?;
        Ok(Self { word: word.unwrap_or_default(), rest })
    }

    pub(super) fn cold() -> Self {
        Self { word: "COLD".to_owned(), rest: Vec::new().into_iter() }
    }

    pub(super) fn answer(&mut self) -> Result<Answer, LimiterError> {
        Ok(match self.word.as_str() {
            "ADMIT" => Answer::Admit,
            "KEPT" => Answer::Kept,
            "REFUSE" => Answer::Refuse,
            "EXPIRED" => Answer::Expired,
            "DONE" => Answer::Done,
            "STANDS" => Answer::Stands,
            "AUDIT" => Answer::Audit,
            "COLD" => Answer::Cold,
            "UNKNOWN" => Answer::Unknown,
            "LOST" => Answer::Lost,
            "STALE" => Answer::Stale,
            _ => return Err(self.unexpected()),
        })
    }

    pub(super) fn unexpected(&self) -> LimiterError {
        LimiterError::Unreadable(format!("a script answered {:?}", self.word))
    }

    pub(super) fn number(&mut self) -> Result<i64, LimiterError> {
        self.rest.next().map_or_else(|| Err(missing()), number)
    }

    pub(super) fn text(&mut self) -> Result<String, LimiterError> {
        self.rest.next().map_or_else(|| Err(missing()), text)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.len() == 0
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<i64>, LimiterError> {
        self.rest.by_ref().map(number).collect()
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>, LimiterError> {
        self.rest.by_ref().map(text).collect()
    }

    /// Names, each with a number.
    pub(super) fn pairs(&mut self) -> Result<Vec<(String, i64)>, LimiterError> {
        let mut pairs = Vec::with_capacity(self.rest.len() / 2);
        while !self.is_empty() {
            pairs.push((self.text()?, self.number()?));
        }
        Ok(pairs)
    }
}

fn missing() -> LimiterError {
    LimiterError::Unreadable("a script answered too little".to_owned())
}

fn number(value: Value) -> Result<i64, LimiterError> {
    match value {
        Value::Int(number) => Ok(number),
        other => text(other)?.parse().map_err(|_| missing()),
    }
}

fn text(value: Value) -> Result<String, LimiterError> {
    let unreadable = || LimiterError::Unreadable("a script answered with no text".to_owned());
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| unreadable()),
        Value::SimpleString(text) => Ok(text),
        _ => Err(unreadable()),
    }
}

//! Parts of forms. Every form is a plain POST that works without scripts.

use leptos::prelude::*;

use super::icon::{Icon, icon};
use crate::console::csrf;
use crate::pages::request::Query;
use crate::routes::{NAME_MAX_CHARS, PASSWORD_MIN_CHARS, error, field, query};
use crate::words;

/// The hidden token that every form carries.
pub(crate) fn csrf_field() -> AnyView {
    view! { <input type="hidden" name=field::CSRF value=csrf().0/> }.into_any()
}

/// One labelled input.
pub(crate) struct Input {
    /// Field name, also its id and `data-testid`.
    pub(crate) name: &'static str,
    /// The label.
    pub(crate) label: &'static str,
    /// `text`, `email` or `password`.
    pub(crate) kind: &'static str,
    /// What the browser may fill in.
    pub(crate) autocomplete: &'static str,
    /// What stands in it at first; never a password.
    pub(crate) value: String,
    /// What helps to fill it in.
    pub(crate) hint: Option<String>,
    /// Whether the caret starts here.
    pub(crate) autofocus: bool,
}

impl Input {
    /// Label, input, hint.
    pub(crate) fn view(self) -> AnyView {
        let hint_id = format!("{}-hint", self.name);
        let described = self.hint.is_some().then(|| hint_id.clone());
        let min = (self.kind == "password" && self.autocomplete == "new-password")
            .then(|| PASSWORD_MIN_CHARS.to_string());
        let max = (self.kind == "text").then(|| NAME_MAX_CHARS.to_string());
        view! {
            <div class="field">
                <label for=self.name>{self.label}</label>
                <input
                    id=self.name
                    name=self.name
                    type=self.kind
                    autocomplete=self.autocomplete
                    value=self.value
                    required
                    minlength=min
                    maxlength=max
                    autofocus=self.autofocus
                    aria-describedby=described
                    data-testid=self.name
                />
                {self.hint.map(|hint| view! { <p class="hint" id=hint_id>{hint}</p> })}
            </div>
        }
        .into_any()
    }
}

/// Why the last post of this form was refused, when it was.
pub(crate) fn refusal(query: &Query) -> Option<AnyView> {
    let said = refusal_words(query)?;
    Some(
        view! {
            <div class="notice danger" role="alert" data-testid="form-error">
                {icon(Icon::Warning)}
                <p>{said}</p>
            </div>
        }
        .into_any(),
    )
}

fn refusal_words(query: &Query) -> Option<String> {
    let said = match query.get(query::ERROR)?.as_str() {
        error::CREDENTIALS => "E-mail or password is not right.".to_owned(),
        error::TOO_MANY_TRIES => {
            let wait_s: Option<i64> = query.get(query::WAIT_S).and_then(|s| s.parse().ok());
            match wait_s {
                Some(wait_s @ 1..) => format!(
                    "Too many failed tries. Try again in {}.",
                    words::length_ms(wait_s.saturating_mul(1_000))
                ),
                _ => "Too many failed tries. Try again in a few minutes.".to_owned(),
            }
        }
        error::EXPIRED_FORM => {
            "This form was open for too long. Nothing was changed; send it again.".to_owned()
        }
        error::EMAIL_INVALID => "This is not an e-mail address.".to_owned(),
        error::PASSWORD_TOO_SHORT => {
            format!("The password needs at least {PASSWORD_MIN_CHARS} characters.")
        }
        error::PASSWORD_TOO_LONG => "The password is too long.".to_owned(),
        error::INSTANCE_NAME_INVALID => {
            format!("The instance needs a name of 1 to {NAME_MAX_CHARS} characters.")
        }
        error::NAME_INVALID => format!("A key needs a name of 1 to {NAME_MAX_CHARS} characters."),
        error::NAME_TAKEN => {
            "This tenant already has a living key of that name. Choose another.".to_owned()
        }
        error::CONFIRM_MISMATCH => {
            "What you typed is not the key's name. Nothing was revoked.".to_owned()
        }
        error::ALREADY_REVOKED => "This key is already revoked.".to_owned(),
        error::FORBIDDEN => "Your role does not include this. Nothing was changed.".to_owned(),
        _ => match query.get(query::REQUEST_ID) {
            Some(id) => format!("This could not be done. Nothing was changed. Request id {id}."),
            None => "This could not be done. Nothing was changed.".to_owned(),
        },
    };
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&str, &str)]) -> Option<String> {
        refusal_words(&Query::of(pairs))
    }

    #[test]
    fn each_refusal_has_its_own_words_and_an_unknown_code_is_not_silent() {
        let codes = [
            error::CREDENTIALS,
            error::TOO_MANY_TRIES,
            error::EXPIRED_FORM,
            error::EMAIL_INVALID,
            error::PASSWORD_TOO_SHORT,
            error::PASSWORD_TOO_LONG,
            error::INSTANCE_NAME_INVALID,
            error::NAME_INVALID,
            error::NAME_TAKEN,
            error::CONFIRM_MISMATCH,
            error::ALREADY_REVOKED,
            error::FORBIDDEN,
            error::UNAVAILABLE,
        ];
        let mut texts: Vec<String> =
            codes.iter().map(|code| said(&[(query::ERROR, code)]).unwrap()).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), codes.len());
        assert!(said(&[(query::ERROR, "new_code")]).is_some());
        assert_eq!(said(&[]), None);
    }

    #[test]
    fn the_wait_and_the_request_id_are_said() {
        let wait = said(&[(query::ERROR, error::TOO_MANY_TRIES), (query::WAIT_S, "72")]).unwrap();
        assert!(wait.contains("1\u{a0}min 12\u{a0}s"), "{wait}");
        let id = [(query::ERROR, error::UNAVAILABLE), (query::REQUEST_ID, "01ABC")];
        assert!(said(&id).unwrap().contains("01ABC"));
    }
}

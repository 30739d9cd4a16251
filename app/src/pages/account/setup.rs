//! First run: the one-time token from the server's log opens the form that makes the first owner.

use leptos::prelude::*;

use crate::components::form::{Input, csrf_field, refusal};
use crate::components::frame::bare_frame;
use crate::console::{ConsoleError, console};
use crate::pages::error::error_sheet;
use crate::pages::request::Query;
use crate::pages::sheet::{Sheet, answer_when_ready};
use crate::routes::{self, NAME_MAX_CHARS, PASSWORD_MIN_CHARS, field};

/// The form; 404 without an open token, so that nobody learns whether set-up was done.
pub(crate) fn setup_page() -> AnyView {
    let asked = Query::read();
    answer_when_ready(async move {
        let token = asked.text(field::TOKEN);
        let sheet = match open(&token).await {
            Ok(()) => sheet(&asked, token),
            Err(error) => error_sheet(&error, None),
        };
        bare_frame(sheet, None)
    })
}

async fn open(token: &str) -> Result<(), ConsoleError> {
    if token.is_empty() {
        return Err(ConsoleError::NotFound);
    }
    if console()?.setup_open(token).await? { Ok(()) } else { Err(ConsoleError::NotFound) }
}

fn sheet(asked: &Query, token: String) -> Sheet {
    let name = asked.get(field::INSTANCE_NAME).unwrap_or_else(|| "Weir".to_owned());
    let body = view! {
        <p class="lead">
            "This is the first owner of this installation. The link works once; there is no default password."
        </p>
        {refusal(asked)}
        <form method="post" action=routes::SETUP class="stack" data-testid="setup-form">
            {csrf_field()}
            <input type="hidden" name=field::TOKEN value=token/>
            {Input {
                name: field::EMAIL,
                label: "E-mail",
                kind: "email",
                autocomplete: "username",
                value: asked.text(field::EMAIL),
                hint: None,
                autofocus: true,
            }
                .view()}
            {Input {
                name: field::PASSWORD,
                label: "Password",
                kind: "password",
                autocomplete: "new-password",
                value: String::new(),
                hint: Some(
                    format!(
                        "At least {PASSWORD_MIN_CHARS} characters. A few random words are better than one with signs in it.",
                    ),
                ),
                autofocus: false,
            }
                .view()}
            {Input {
                name: field::INSTANCE_NAME,
                label: "Name of this installation",
                kind: "text",
                autocomplete: "organization",
                value: name,
                hint: Some(format!("Shown on every page. Up to {NAME_MAX_CHARS} characters.")),
                autofocus: false,
            }
                .view()}
            <button class="button primary wide" data-testid="create-owner">"Create owner"</button>
        </form>
    };
    Sheet { title: "Set up Weir".to_owned(), crumbs: Vec::new(), head: None, body: body.into_any() }
}

//! Sign in.

use leptos::prelude::*;

use crate::components::form::{Input, csrf_field, refusal};
use crate::components::frame::bare_frame;
use crate::console::{console, viewer};
use crate::pages::request::{Query, redirect};
use crate::pages::sheet::{Sheet, answer_when_ready};
use crate::routes::{self, done, field, query};

/// Asks for e-mail and password. Who is signed in already is sent on.
pub(crate) fn login_page() -> AnyView {
    if let Some(viewer) = viewer() {
        redirect(&viewer.home());
        return ().into_any();
    }
    let asked = Query::read();
    answer_when_ready(async move {
        let instance = match console() {
            Ok(console) => console.instance().await.ok(),
            Err(_) => None,
        };
        let setup_needed = instance.as_ref().is_some_and(|instance| instance.setup_needed);
        let title = match instance.map(|instance| instance.name).filter(|name| !name.is_empty()) {
            Some(name) => format!("Sign in to {name}"),
            None => "Sign in".to_owned(),
        };
        let body = form(&asked, setup_needed);
        bare_frame(Sheet { title, crumbs: Vec::new(), head: None, body }, None)
    })
}

fn form(asked: &Query, setup_needed: bool) -> AnyView {
    let next = asked.text(field::NEXT);
    let next = routes::own_path(&next).unwrap_or_default().to_owned();
    let signed_out = asked.text(query::DONE) == done::SIGNED_OUT;
    view! {
        {refusal(asked)}
        {signed_out
            .then(|| {
                view! {
                    <p class="notice ok" role="status" data-testid="signed-out">
                        "You are signed out."
                    </p>
                }
            })}
        {setup_needed
            .then(|| {
                view! {
                    <p class="notice" role="note" data-testid="setup-hint">
                        "Nobody can sign in yet. Open the set-up link that the server printed when it started."
                    </p>
                }
            })}
        <form method="post" action=routes::LOGIN class="stack" data-testid="login-form">
            {csrf_field()}
            <input type="hidden" name=field::NEXT value=next/>
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
                autocomplete: "current-password",
                value: String::new(),
                hint: None,
                autofocus: false,
            }
                .view()}
            <button class="button primary wide" data-testid="sign-in">"Sign in"</button>
        </form>
        <p class="muted small">
            "Forgotten the password? Whoever runs this server can make a new user with "
            <code>"weir user create"</code> "."
        </p>
    }
    .into_any()
}

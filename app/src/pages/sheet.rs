//! How a page answers: with a sheet in the frame of its audience, or with an error page.

use std::future::Future;

use leptos::prelude::*;

use super::error::error_sheet;
use super::request::{Asked, Query, parameter, redirect, sign_in_path};
use crate::components::frame::{Audience, Place, bare_frame, full_frame};
use crate::console::{ConsoleError, Role, Viewer};
use crate::rights::Right;

/// The content of a page.
pub(crate) struct Sheet {
    /// The one heading, and the first part of the window's title.
    pub(crate) title: String,
    /// Links above the heading: (words, path).
    pub(crate) crumbs: Vec<(String, String)>,
    /// What stands beside the heading.
    pub(crate) head: Option<AnyView>,
    /// What stands under the heading.
    pub(crate) body: AnyView,
}

/// A page for signed-in people: asks who it is, checks the right, shows what `content` answers.
///
/// A person of the other audience gets 404: tenants do not learn that the operators' console
/// exists, and operators have no page of their own inside a tenant.
pub(crate) fn sheet_page<F, A>(place: Place, right: Right, content: F) -> AnyView
where
    F: FnOnce(Asked) -> A + Send + 'static,
    A: Future<Output = Result<Sheet, ConsoleError>> + Send,
{
    let (query, slug) = (Query::read(), parameter("slug"));
    let answer = async move {
        match Asked::read(query).await {
            Ok(asked) => {
                let answer = match entitled(&asked.viewer, place.audience(), right, &slug) {
                    Ok(()) => content(asked.clone()).await,
                    Err(refusal) => Err(refusal),
                };
                let sheet = answer.unwrap_or_else(|error| error_sheet(&error, Some(&asked)));
                full_frame(place, &asked, sheet)
            }
            Err(ConsoleError::SignedOut) => {
                redirect(&sign_in_path());
                ().into_any()
            }
            Err(error) => bare_frame(error_sheet(&error, None), None),
        }
    };
    answer_when_ready(answer)
}

fn entitled(
    viewer: &Viewer,
    audience: Audience,
    right: Right,
    slug: &str,
) -> Result<(), ConsoleError> {
    let belongs = match (&viewer.role, audience) {
        (Role::TenantMember { slug: own, .. }, Audience::Members) => own == slug,
        (Role::TenantMember { .. }, Audience::Operators) => false,
        (_, audience) => audience == Audience::Operators,
    };
    if belongs { viewer.must(right) } else { Err(ConsoleError::NotFound) }
}

/// The whole page is one answer: everything is in the HTML, whether scripts run or not.
pub(crate) fn answer_when_ready(answer: impl Future<Output = AnyView> + Send + 'static) -> AnyView {
    // Boxed: the future holds a page's whole state and is moved around by the renderer.
    let answer = Box::pin(answer);
    view! { <Suspense fallback=|| ()>{Suspend::new(answer)}</Suspense> }.into_any()
}

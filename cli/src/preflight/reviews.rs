//! Checks the RBAC rights of the coordinators' service account.
//!
//! The first request is a SubjectAccessReview about the service account. If RBAC forbids it, the check runs SelfSubjectAccessReviews as the
//! service account, impersonated or current.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use http::HeaderValue;
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
        SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, api::PostParams};

use super::{
    args::PreflightArgs,
    check::Check,
    rights::{Right, to_yaml},
};

const NAME: &str = "rights";
/// Concurrent requests.
const AT_ONCE: usize = 8;

/// The consequence of a missing right that a coordinator does not need.
fn consequence(right: &Right) -> Option<&'static str> {
    match (&*right.group, &*right.resource) {
        ("resource.k8s.io", "devicetaintrules") => {
            Some("not granted: devicetaintrules; DeviceTaintRules have no effect")
        }
        ("scheduling.x-k8s.io", _) => {
            Some("not granted: podgroups.scheduling.x-k8s.io; only the plugin Coscheduling needs it")
        }
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    About,
    Impersonating,
    AsIs,
}

pub(super) async fn rights(client: &Client, args: &PreflightArgs, wanted: BTreeSet<Right>) -> Check {
    let user = format!("system:serviceaccount:{}:{}", args.namespace, args.service_account);
    let way = match way(client, args, &user, &wanted).await {
        Ok(way) => way,
        Err(error) => {
            let next = "run it as a user with the right to create subjectaccessreviews, or to impersonate the service \
            account";
            return Check::unanswered(NAME, &error).next(next);
        }
    };
    let count = wanted.len();
    let asked = stream::iter(wanted).map(|right| {
        let user = &user;
        async move {
            let allowed = ask(client, args, user, way, &right).await;
            (right, allowed)
        }
    });
    let answers: Vec<(Right, kube::Result<bool>)> = asked.buffered(AT_ONCE).collect().await;
    if let Some(error) = answers.iter().find_map(|(_, allowed)| allowed.as_ref().err()) {
        return Check::unanswered(NAME, error);
    }
    let missing: Vec<&Right> =
        answers.iter().filter(|(_, allowed)| matches!(allowed, Ok(false))).map(|(right, _)| right).collect();
    let (dispensable, missing): (Vec<&Right>, Vec<&Right>) =
        missing.into_iter().partition(|right| consequence(right).is_some());
    if missing.is_empty() {
        let check =
            Check::passed(NAME, format!("{user} has all {} that a coordinator needs", count - dispensable.len()));
        let consequences: BTreeSet<&str> = dispensable.into_iter().filter_map(consequence).collect();
        let consequences: Vec<&str> = consequences.into_iter().collect();
        return if consequences.is_empty() { check } else { check.next(consequences.join("\n")) };
    }
    let next =
        format!("kubectl apply -f deploy/base/rbac.yaml, or add these rules:\n{}", to_yaml(missing.iter().copied()));
    Check::failed(NAME, format!("{user} lacks {} of {count}", missing.len())).next(next)
}

async fn way(client: &Client, args: &PreflightArgs, user: &str, wanted: &BTreeSet<Right>) -> kube::Result<Way> {
    let Some(first) = wanted.first() else { return Ok(Way::About) };
    let forbidden = match ask(client, args, user, Way::About, first).await {
        Ok(_) => return Ok(Way::About),
        Err(error) if is_forbidden(&error) => error,
        Err(error) => return Err(error),
    };
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    if let Ok(review) = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        let own = review.status.and_then(|status| status.user_info).and_then(|own| own.username);
        if own.as_deref() == Some(user) {
            return Ok(Way::AsIs);
        }
    }
    match ask(client, args, user, Way::Impersonating, first).await {
        Ok(_) => Ok(Way::Impersonating),
        Err(_) => Err(forbidden),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

async fn ask(client: &Client, args: &PreflightArgs, user: &str, way: Way, right: &Right) -> kube::Result<bool> {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (right.resource.as_str(), None),
    };
    let attributes = ResourceAttributes {
        namespace: right.namespace.clone(),
        group: Some(right.group.clone()),
        resource: Some(resource.to_owned()),
        subresource,
        name: right.name.clone(),
        verb: Some(right.verb.clone()),
        ..ResourceAttributes::default()
    };
    if way == Way::About {
        let groups =
            ["system:serviceaccounts", &format!("system:serviceaccounts:{}", args.namespace), "system:authenticated"];
        let spec = SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups.map(str::to_owned).to_vec()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let made = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
        return Ok(made.status.is_some_and(|status| status.allowed));
    }
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let body = serde_json::to_vec(&review).map_err(kube::Error::SerdeError)?;
    let request = http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header(http::header::CONTENT_TYPE, "application/json");
    let mut request = request.body(body).map_err(kube::Error::HttpError)?;
    if way == Way::Impersonating
        && let Ok(value) = HeaderValue::from_str(user)
    {
        request.headers_mut().insert("impersonate-user", value);
    }
    let made: SelfSubjectAccessReview = client.request(request).await?;
    Ok(made.status.is_some_and(|status| status.allowed))
}

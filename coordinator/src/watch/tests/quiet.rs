//! Watches that end as agreed and send no bookmarks.

use futures::StreamExt as _;

use super::*;
use crate::takeover::VIEW_BOUND;

/// The list of its objects after the first one.
type Now = Arc<Mutex<Option<(&'static str, Vec<Value>)>>>;

/// Lists the objects of `now`, `None` meaning no answer, and ends each watch after its timeout.
fn client(now: &Now) -> kube::Client {
    let now = Arc::clone(now);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let now = Arc::clone(&now);
        async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let answer = |code: u16, text: String| {
                let body = Full::from(text).map_err(|never| match never {}).boxed_unsync();
                Response::builder().status(code).header(CONTENT_TYPE, JSON).body(body).expect("a response")
            };
            if query.contains("sendInitialEvents=true") {
                return Ok::<_, std::io::Error>(answer(422, "unknown parameter".to_owned()));
            }
            let timeout = query.split('&').find_map(|part| part.strip_prefix("timeoutSeconds="));
            if let Some(seconds) = timeout.filter(|_| query.contains("watch=true")) {
                let ends_after = Duration::from_secs(seconds.parse().expect("a number"));
                let frames = stream::once(tokio::time::sleep(ends_after)).flat_map(|()| stream::empty::<Silence>());
                let response = Response::builder().header(CONTENT_TYPE, JSON);
                return Ok(response.body(StreamBody::new(frames).boxed_unsync()).expect("a response"));
            }
            let listed = now.lock().expect("unpoisoned").clone();
            let Some((version, items)) = listed else { return std::future::pending().await };
            let list = json!({ "metadata": { "resourceVersion": version }, "items": items });
            Ok(answer(200, list.to_string()))
        }
    });
    kube::Client::new(service, "default")
}

/// The maximum age of the cache within so many seconds, and the number of lists.
async fn oldest(shared: &source::Shared, seconds: u64) -> (Duration, u64) {
    let mut oldest = Duration::ZERO;
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        oldest = oldest.max(shared.age());
    }
    (oldest, shared.tally().lists)
}

#[tokio::test(start_paused = true)]
async fn a_quiet_view_without_bookmarks_is_confirmed_by_the_objects_before_it_counts_as_too_old() {
    let pods = vec![pod("a", "u1", "5"), pod("b", "u2", "6")];
    let now = Arc::new(Mutex::new(Some(("10", pods.clone()))));
    let (handle, mut heard) = listener();
    let (reporter, shared) = (Server::default().reporter(), Arc::<source::Shared>::default());
    tokio::spawn(Source::<Pods>::new(client(&now), handle, reporter, Arc::clone(&shared)).run());
    assert_eq!(told(&mut heard, 2).await, ["+u1", "+u2"]);

    // The version of the list grows with writes of other kinds.
    now.lock().expect("unpoisoned").as_mut().expect("a list").0 = "500";
    let (age, lists) = oldest(&shared, 1_000).await;
    assert!(age < VIEW_BOUND, "{age:?}");
    assert_eq!(lists, 1, "nothing has changed");

    // A change that no watch sends is found, and so are new and deleted objects.
    let changes = [vec![pod("a", "u1", "5"), pod("b", "u2", "600")], vec![pod("a", "u1", "5"), pod("c", "u3", "700")]];
    for (changed, expected) in changes.into_iter().zip([["+u1", "+u2"], ["+u1", "+u3"]]) {
        *now.lock().expect("unpoisoned") = Some(("800", changed));
        assert_eq!(told(&mut heard, 2).await, expected);
    }
    assert_eq!((told(&mut heard, 1).await, shared.tally().lists), (vec!["-u2".to_owned()], 3));

    // Without confirmation the age grows.
    *now.lock().expect("unpoisoned") = None;
    let (age, _) = oldest(&shared, 400).await;
    assert!(age > VIEW_BOUND, "{age:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_restored_does_not_confirm_the_view() {
    let now = Arc::new(Mutex::new(Some(("1000", vec![pod("a", "u1", "5")]))));
    let (handle, mut heard) = listener();
    let (reporter, shared) = (Server::default().reporter(), Arc::<source::Shared>::default());
    tokio::spawn(Source::<Pods>::new(client(&now), handle, reporter, Arc::clone(&shared)).run());
    assert_eq!(told(&mut heard, 1).await, ["+u1"]);
    now.lock().expect("unpoisoned").as_mut().expect("a list").0 = "100";
    // A thread applies a list, and the virtual clock does not wait for it.
    for _ in 0..1_000_000 {
        if shared.tally().stale > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("a list that is older than the view has confirmed it");
}

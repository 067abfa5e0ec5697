//! Requests and bytes at the API server, by verb and kind.

use std::collections::BTreeMap;

use serde::Serialize;

/// Kind of request: verb in capitals, and resource with subresource, such as `POST` and `pods/binding`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) verb: String,
    pub(crate) resource: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) requests: f64,
    /// Answered with 429 Too Many Requests.
    pub(crate) refused: f64,
    pub(crate) request_bytes: f64,
    /// Reads only; the API server does not count writes.
    pub(crate) response_bytes: f64,
    /// Total duration, without watches.
    pub(crate) seconds: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Watched {
    pub(crate) events: f64,
    pub(crate) bytes: f64,
    /// Watches that the API server terminated because the client was too slow.
    pub(crate) terminated: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) requests: BTreeMap<Kind, Traffic>,
    pub(crate) watches: BTreeMap<String, Watched>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) requests: f64,
    pub(crate) refused: f64,
    pub(crate) request_bytes: f64,
    pub(crate) response_bytes: f64,
    pub(crate) mean_ms: f64,
    /// Terminated slow watches, for rows of events.
    pub(crate) watches_ended: f64,
}

impl Counts {
    pub(crate) fn parse(page: &str) -> Self {
        let mut counts = Self::default();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Some((name, labels)) = series.split_once('{') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            counts.add(name, labels, value);
        }
        counts
    }

    fn add(&mut self, name: &str, labels: &str, value: f64) {
        match name {
            "apiserver_request_total" => {
                let traffic = self.requests.entry(kind(labels)).or_default();
                traffic.requests += value;
                if label(labels, "code") == "429" {
                    traffic.refused += value;
                }
            }
            // Events of a watch are counted separately, and again in this metric when the watch ends.
            "apiserver_response_sizes_sum" if label(labels, "verb") != "WATCH" => {
                self.requests.entry(kind(labels)).or_default().response_bytes += value;
            }
            "apiserver_request_body_size_bytes_sum" => {
                self.requests.entry(kind(labels)).or_default().request_bytes += value;
            }
            "apiserver_request_duration_seconds_sum" if label(labels, "verb") != "WATCH" => {
                self.requests.entry(kind(labels)).or_default().seconds += value;
            }
            "apiserver_watch_events_sizes_sum" => self.watched(labels).bytes += value,
            "apiserver_terminated_watchers_total" => self.watched(labels).terminated += value,
            "apiserver_watch_events_sizes_count" => self.watched(labels).events += value,
            _ => {}
        }
    }

    fn watched(&mut self, labels: &str) -> &mut Watched {
        self.watches.entry(label(labels, "resource").to_owned()).or_default()
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        let requests = self.requests.iter().map(|(kind, now)| {
            let then = before.requests.get(kind).copied().unwrap_or_default();
            let traffic = Traffic {
                requests: now.requests - then.requests,
                refused: now.refused - then.refused,
                request_bytes: now.request_bytes - then.request_bytes,
                response_bytes: now.response_bytes - then.response_bytes,
                seconds: now.seconds - then.seconds,
            };
            (kind.clone(), traffic)
        });
        let watches = self.watches.iter().map(|(resource, now)| {
            let then = before.watches.get(resource).copied().unwrap_or_default();
            let watched = Watched {
                events: now.events - then.events,
                bytes: now.bytes - then.bytes,
                terminated: now.terminated - then.terminated,
            };
            (resource.clone(), watched)
        });
        Self { requests: requests.collect(), watches: watches.collect() }
    }

    /// Writes, except those of Leases, which never cease.
    pub(crate) fn writes(&self) -> f64 {
        let writes = self.requests.iter().filter(|(kind, _)| {
            matches!(kind.verb.as_str(), "POST" | "PUT" | "PATCH" | "DELETE") && kind.resource != "leases"
        });
        writes.map(|(_, traffic)| traffic.requests).sum()
    }

    /// Rows of the report, most requests first. Watch events have the verb `EVENT`.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let requests = self.requests.iter().map(|(kind, traffic)| Row {
            verb: kind.verb.clone(),
            resource: kind.resource.clone(),
            requests: traffic.requests,
            refused: traffic.refused,
            request_bytes: traffic.request_bytes,
            response_bytes: traffic.response_bytes,
            mean_ms: if traffic.requests > 0.0 { traffic.seconds * 1000.0 / traffic.requests } else { 0.0 },
            watches_ended: 0.0,
        });
        let watches = self.watches.iter().map(|(resource, watched)| Row {
            verb: "EVENT".to_owned(),
            resource: resource.clone(),
            requests: watched.events,
            refused: 0.0,
            request_bytes: 0.0,
            response_bytes: watched.bytes,
            mean_ms: 0.0,
            watches_ended: watched.terminated,
        });
        let mut rows: Vec<Row> =
            requests.chain(watches).filter(|row| row.requests > 0.0 || row.watches_ended > 0.0).collect();
        rows.sort_by(|a, b| b.requests.total_cmp(&a.requests).then_with(|| a.resource.cmp(&b.resource)));
        rows
    }
}

fn kind(labels: &str) -> Kind {
    // The metric of request bodies has the handlers' verbs, the others HTTP's.
    let verb = match label(labels, "verb") {
        "create" => "POST",
        "update" => "PUT",
        "patch" | "APPLY" => "PATCH",
        "delete" => "DELETE",
        other => other,
    };
    let (resource, subresource) = (label(labels, "resource"), label(labels, "subresource"));
    let resource = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    Kind { verb: verb.to_owned(), resource }
}

/// Value of a label, or empty. No value of these metrics contains a quote.
fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    let mut pairs = labels.trim_end_matches('}').split("\",").filter_map(|pair| pair.split_once("=\""));
    pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim_end_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP apiserver_request_total how many
apiserver_request_total{code="201",component="apiserver",resource="pods",subresource="binding",verb="POST"} 10
apiserver_request_total{code="429",component="apiserver",resource="pods",subresource="binding",verb="POST"} 2
apiserver_request_total{code="200",component="apiserver",resource="leases",subresource="",verb="PUT"} 5
apiserver_response_sizes_sum{component="apiserver",resource="pods",subresource="binding",verb="POST"} 400
apiserver_request_duration_seconds_sum{component="apiserver",resource="pods",subresource="binding",verb="POST"} 0.06
apiserver_request_body_size_bytes_sum{resource="leases",verb="update"} 300
apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 9000
apiserver_watch_events_sizes_count{group="",resource="pods",version="v1"} 9
apiserver_terminated_watchers_total{group="",resource="pods"} 1
other 1
"#;

    #[test]
    fn requests_of_a_kind_are_added_up_over_codes_and_the_refused_are_counted() {
        let counts = Counts::parse(PAGE);
        let kind = Kind { verb: "POST".to_owned(), resource: "pods/binding".to_owned() };
        let expected =
            Traffic { requests: 12.0, refused: 2.0, request_bytes: 0.0, response_bytes: 400.0, seconds: 0.06 };
        assert_eq!(counts.requests[&kind], expected);
    }

    #[test]
    fn the_verbs_of_bodies_are_those_of_requests() {
        let counts = Counts::parse(PAGE);
        let kind = Kind { verb: "PUT".to_owned(), resource: "leases".to_owned() };
        assert_eq!(counts.requests[&kind].request_bytes, 300.0);
    }

    #[test]
    fn the_mean_time_of_a_kind_is_over_all_its_requests() {
        let rows = Counts::parse(PAGE).rows();
        let row = rows.iter().find(|row| row.resource == "pods/binding").expect("it is there");
        assert!((row.mean_ms - 5.0).abs() < 1e-9, "{row:?}");
    }

    #[test]
    fn the_events_of_a_resource_say_how_many_watches_did_not_keep_up() {
        let watched = Counts::parse(PAGE).watches["pods"];
        assert_eq!(watched, Watched { events: 9.0, bytes: 9000.0, terminated: 1.0 });
    }

    #[test]
    fn renewals_of_leases_are_no_writes_that_anybody_waits_for() {
        assert_eq!(Counts::parse(PAGE).writes(), 12.0);
    }

    #[test]
    fn rows_have_what_was_counted_since_and_leave_out_what_did_not_happen() {
        let later = PAGE.replace("} 10\n", "} 30\n").replace("} 9\n", "} 19\n");
        let rows = Counts::parse(&later).since(&Counts::parse(PAGE)).rows();
        let short: Vec<(&str, &str, f64)> =
            rows.iter().map(|row| (row.verb.as_str(), row.resource.as_str(), row.requests)).collect();
        assert_eq!(short, [("POST", "pods/binding", 20.0), ("EVENT", "pods", 10.0)]);
    }
}

// The kinds of Prometheus Operator that deploy/components/monitoring is of: this file alone says of which version. Nothing is
// built; the module is fetched for the CustomResourceDefinitions in it.
//
// To move to another release, run `go mod download github.com/prometheus-operator/prometheus-operator@VERSION`, change the
// version here, and put the two checksums that it leaves into go.sum.
module flotilla/integration-tests/monitoring

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0

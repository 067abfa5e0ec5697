// Lint reads metrics in Prometheus' text format and prints the problems that `promtool check metrics` finds, one `NAME: TEXT` a line.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: lint FILE")
	}
	page, err := os.Open(os.Args[1])
	if err != nil {
		return err
	}
	defer page.Close()
	problems, err := promlint.New(page).Lint()
	if err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Printf("%s: %s\n", problem.Metric, problem.Text)
	}
	return nil
}

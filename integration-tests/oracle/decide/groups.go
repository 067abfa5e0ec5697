package main

// Folders of cases with pod groups, and comparison of given answers.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"flotilla/integration-tests/oracle/decide/cluster"
	"flotilla/integration-tests/oracle/decide/judge"
)

// told is the given answer of one case.
type told struct {
	Case        string          `json:"case"`
	Placements  []judge.Placed  `json:"placements"`
	Preemptions []judge.Evicted `json:"preemptions"`
}

// compared is the output line of one case.
type compared struct {
	Case string `json:"case"`
	*judge.Verdict
	// Refused is why the case was rejected.
	Refused string `json:"refused,omitempty"`
}

// compareAll compares the answers in a file, one line each, in order. preempts: groups may preempt pods.
func compareAll(folder, answers string, preempts bool, reading cluster.Reading, out io.Writer) error {
	file, err := os.Open(answers)
	if err != nil {
		return err
	}
	defer file.Close()
	var all []told
	for decoder := json.NewDecoder(bufio.NewReader(file)); decoder.More(); {
		var one told
		if err := decoder.Decode(&one); err != nil {
			return fmt.Errorf("%s: %w", answers, err)
		}
		all = append(all, one)
	}
	results := make([]compared, len(all))
	turns := make(chan int)
	var judges sync.WaitGroup
	for range atOnce {
		judges.Go(func() {
			for turn := range turns {
				verdict, err := compareCase(folder, all[turn], preempts, reading)
				results[turn] = compared{Case: all[turn].Case, Verdict: verdict}
				if err != nil {
					results[turn].Refused = err.Error()
				}
			}
		})
	}
	for turn := range all {
		turns <- turn
	}
	close(turns)
	judges.Wait()
	lines := bufio.NewWriter(out)
	encoder := json.NewEncoder(lines)
	encoder.SetEscapeHTML(false)
	for _, result := range results {
		if err := encoder.Encode(result); err != nil {
			return err
		}
	}
	return lines.Flush()
}

func compareCase(folder string, said told, preempts bool, reading cluster.Reading) (*judge.Verdict, error) {
	path := filepath.Join(folder, said.Case)
	configuration := path + configurationSuffix
	if _, err := os.Stat(configuration); os.IsNotExist(err) {
		configuration = ""
	}
	cfg, err := judge.Configure(configuration)
	if err != nil {
		return nil, err
	}
	if !preempts {
		judge.WithoutPreemption(cfg)
	}
	given, err := cluster.Load([]string{path + clusterSuffix}, reading)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked, err := judge.New(ctx, given, cfg)
	if err != nil {
		return nil, err
	}
	return asked.CompareGroup(ctx, given.Pending(), said.Placements, said.Preemptions)
}

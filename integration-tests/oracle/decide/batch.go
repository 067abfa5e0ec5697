package main

// Folders of cases: many clusters, each evaluated separately in one process.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"flotilla/integration-tests/oracle/decide/cluster"
)

const (
	clusterSuffix       = ".yaml"
	configurationSuffix = ".config.yaml"
)

// atOnce is the number of concurrent cases, which mostly wait for informers.
const atOnce = 8

// outcome is the output line of one case.
type outcome struct {
	Case string `json:"case"`
	// Refused is why the case was rejected.
	Refused string            `json:"refused,omitempty"`
	Answers []json.RawMessage `json:"answers,omitempty"`
}

// decideAll evaluates the cases of a folder, one line each, sorted by name, without warnings.
func decideAll(folder string, reading cluster.Reading, out io.Writer) error {
	names, err := casesOf(folder)
	if err != nil {
		return err
	}
	outcomes := make([]outcome, len(names))
	turns := make(chan int)
	var judges sync.WaitGroup
	for range atOnce {
		judges.Go(func() {
			for turn := range turns {
				outcomes[turn] = decideCase(folder, names[turn], reading)
			}
		})
	}
	for turn := range names {
		turns <- turn
	}
	close(turns)
	judges.Wait()
	lines := bufio.NewWriter(out)
	encoder := json.NewEncoder(lines)
	encoder.SetEscapeHTML(false)
	for _, outcome := range outcomes {
		if err := encoder.Encode(outcome); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// casesOf returns the sorted names of the cases in a folder.
func casesOf(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		name, isCluster := strings.CutSuffix(entry.Name(), clusterSuffix)
		if isCluster && !strings.HasSuffix(entry.Name(), configurationSuffix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s holds no case; expected NAME%s, with or without NAME%s",
			folder, clusterSuffix, configurationSuffix)
	}
	return names, nil
}

func decideCase(folder, name string, reading cluster.Reading) outcome {
	path := filepath.Join(folder, name)
	configuration := path + configurationSuffix
	if _, err := os.Stat(configuration); os.IsNotExist(err) {
		configuration = ""
	}
	var answers bytes.Buffer
	if err := decide([]string{path + clusterSuffix}, configuration, reading, &answers, io.Discard); err != nil {
		return outcome{Case: name, Refused: err.Error()}
	}
	made := outcome{Case: name, Answers: []json.RawMessage{}}
	for line := range bytes.Lines(answers.Bytes()) {
		made.Answers = append(made.Answers, json.RawMessage(bytes.TrimSpace(line)))
	}
	return made
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// gatesPrefix starts the first line of a file with non-default feature gates.
const gatesPrefix = "# feature-gates:"

// file is an input file with its name in the output.
type file struct {
	path string
	name string
}

// collect returns the named files and all files below the named folders.
func collect(arguments []string) ([]file, error) {
	var files []file
	for _, argument := range arguments {
		err := filepath.WalkDir(argument, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			name := filepath.Base(path)
			if relative, err := filepath.Rel(argument, path); err == nil && relative != "." {
				name = filepath.ToSlash(relative)
			}
			files = append(files, file{path, name})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no files; name some, or a folder that has some")
	}
	return files, nil
}

// answerAll examines each file. Feature gates apply to a whole process, so files with gates are examined in separate processes.
func answerAll(gates string, files []file) ([]answer, error) {
	groups := map[string][]file{}
	for _, file := range files {
		wanted := gates
		if wanted == "" {
			text, err := os.ReadFile(file.path)
			if err != nil {
				return nil, err
			}
			wanted = gatesOf(text)
		}
		groups[wanted] = append(groups[wanted], file)
	}
	var answers []answer
	for wanted, group := range groups {
		answered, err := answerGroup(gates, wanted, group)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answered...)
	}
	sort.Slice(answers, func(i, j int) bool { return answers[i].File < answers[j].File })
	return answers, nil
}

func answerGroup(gates, wanted string, files []file) ([]answer, error) {
	if wanted == gates {
		return examineAll(gates, files)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, "-feature-gates", wanted)
	names := map[string]string{}
	for _, file := range files {
		command.Args = append(command.Args, file.path)
		names[filepath.Base(file.path)] = file.name
	}
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("with the feature gates %s: %w", wanted, err)
	}
	var answers []answer
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, len(output)+1)
	for lines.Scan() {
		var one answer
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		one.File = names[one.File]
		answers = append(answers, one)
	}
	return answers, lines.Err()
}

// gatesOf returns the feature gates in a file's first line.
func gatesOf(text []byte) string {
	first, _, _ := strings.Cut(string(text), "\n")
	gates, found := strings.CutPrefix(first, gatesPrefix)
	if !found {
		return ""
	}
	return strings.TrimSpace(gates)
}

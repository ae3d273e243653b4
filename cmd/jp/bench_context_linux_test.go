package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The corpus of BenchmarkContext: each part is a file that one sub-agent reads, and facts stand in
// some of them.
const (
	contextParts  = 400
	contextBytes  = 100_000 // of a part: 25,000 tokens and more
	contextFacts  = 20
	contextBudget = 80_000_000
)

// corpus is a folder of parts, and the facts that stand in them.
type corpus struct {
	facts map[int]string // by the number of the part
}

// plant writes the corpus to the workspace, and what reads it.
func plant(s *shop, timeout string) corpus {
	rnd := rand.New(rand.NewPCG(3, 4))
	c := corpus{facts: map[int]string{}}
	for len(c.facts) < contextFacts {
		part := 1 + rnd.IntN(contextParts)
		c.facts[part] = fmt.Sprintf("The number of part %d is %d.", part, 1000+rnd.IntN(9000))
	}
	for part := 1; part <= contextParts; part++ {
		var text strings.Builder
		at := rnd.IntN(contextBytes)
		for told := c.facts[part] == ""; text.Len() < contextBytes; text.WriteByte('\n') {
			for range 12 {
				fmt.Fprintf(&text, "%x ", rnd.IntN(1<<24))
			}
			if !told && text.Len() > at {
				text.WriteString(c.facts[part])
				told = true
			}
		}
		s.write(filepath.Join(s.dir, fmt.Sprintf("parts/%d.txt", part)), text.String())
	}
	s.write(filepath.Join(s.dir, ".jp/config.toml"), "timeout = \""+timeout+"\"\n")
	s.write(filepath.Join(s.dir, ".jp/config/agent/r.toml"), "[conversation.tools.fs_read_file]\nsource = \"builtin\"\nrun = \"unattended\"\n")
	s.write(filepath.Join(s.dir, ".jp/config/agent/w.toml"), "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"anthropic/bench\"\n[conversation.compact]\nwindow = 8000\n")
	s.run(s.jp, "trust", "--yes")
	return c
}

// contextRules are those of a model that reads a part and says which fact stands there, and that
// puts facts together. Of 400 readers, fail of each hundred end badly: every second by an error,
// the others never.
func contextRules(fail int) string {
	var b strings.Builder
	for part := 1; fail > 0 && part <= contextParts; part += 100 / fail {
		end := `error = { kind = "bad_request", message = "planted" }`
		if part/(100/fail)%2 == 1 {
			end = "hang = true"
		}
		fmt.Fprintf(&b, "[[rule]]\nquery = \"Read parts/%d.txt\"\n%s\n", part, end)
	}
	b.WriteString(`
[[rule]]
query = "Read parts/"
round = 1
tool_calls = [{ name = "fs_read_file", arguments = { path = "{{path}}" } }]
captures = { path = 'Read (parts/[0-9]+\.txt)' }
[[rule]]
query = "Read parts/"
delay = "100ms"
text = "{{fact}}"
captures = { fact = { pattern = 'The number of part [0-9]+ is [0-9]+\.', default = "Nothing." } }
[[rule]]
query = "Which numbers"
delay = "100ms"
text = """Found:
`)
	for n := range contextFacts {
		fmt.Fprintf(&b, "{{f%d}}\n", n+1)
	}
	b.WriteString("\"\"\"\n[rule.captures]\n")
	for n := range contextFacts {
		fmt.Fprintf(&b, "f%d = { pattern = 'The number of part [0-9]+ is [0-9]+\\.', match = %d, default = \"\" }\n", n+1, n+1)
	}
	return b.String()
}

// BenchmarkContext is a question to 10 million tokens: jp batch gives each part to a sub-agent,
// and --reduce makes one answer. All facts must be found, and none that is not there; the budget
// must hold, and no row be lost.
func BenchmarkContext(b *testing.B) { benchContext(b, 0, 0) }

// BenchmarkContextWithFailures is the same where 5 of 100 sub-agents fail, 5 never answer until
// their time is up, and some working ones are killed. What is not found must be named as missing.
func BenchmarkContextWithFailures(b *testing.B) { benchContext(b, 10, 8) }

func benchContext(b *testing.B, fail, kill int) {
	s := newShop(b, "0s", contextRules(fail))
	c := plant(s, "20s")
	var lines strings.Builder
	for part := 1; part <= contextParts; part++ {
		fmt.Fprintf(&lines, "\"Read parts/%d.txt\"\n", part)
	}
	var clock, cpu []time.Duration
	var found, missing, tokens, killed int
	for b.Loop() {
		cmd := exec.Command(s.jp, "batch", "-q", "-c", "agent/r", "--parallel", "32", "--total-budget", strconv.Itoa(contextBudget),
			"--reduce", "agent/w", "--reduce-query", "Which numbers are there?")
		var out, stderr bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, s.env, strings.NewReader(lines.String()), &out, &stderr
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		var done atomic.Bool
		hits := make(chan int)
		go func() { hits <- killSome(cmd.Process.Pid, kill, &done) }()
		err := cmd.Wait()
		done.Store(true)
		killed = <-hits
		if e := (*exec.ExitError)(nil); err != nil && !(fail > 0 && errors.As(err, &e)) {
			b.Fatalf("%v\n%s", err, stderr.String())
		}
		use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		clock, cpu = append(clock, time.Since(began)), append(cpu, time.Duration(use.Utime.Nano()+use.Stime.Nano()))
		found, missing, tokens = c.judge(b, out.Bytes(), fail)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(clock).Seconds(), "s")
	b.ReportMetric(ms(median(cpu))/contextParts, "cpu-ms-child")
	b.ReportMetric(float64(found), "found")
	b.ReportMetric(contextFacts, "found-goal")
	b.ReportMetric(float64(missing), "missing-named")
	b.ReportMetric(float64(tokens)/1e6, "Mtokens")
	b.ReportMetric(float64(max(tokens-contextBudget, 0)), "overspent")
	b.ReportMetric(float64(killed), "killed")
}

// judge compares the rows of a batch with the corpus. It fails where a row is lost, a fact is
// neither found nor named as missing, or something was found that is not there.
func (c corpus) judge(b *testing.B, out []byte, fail int) (found, missing, tokens int) {
	type row struct {
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Text    string `json:"text"`
		Tokens  int    `json:"tokens_used"`
		Reduced *struct {
			Answers int   `json:"answers"`
			Missing []int `json:"missing"`
		} `json:"reduced"`
	}
	rows := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(rows) != contextParts+1 {
		b.Fatalf("%d rows, want %d and the answer", len(rows), contextParts)
	}
	var last row
	var failed []int
	for i, raw := range rows {
		last = row{}
		if err := json.Unmarshal(raw, &last); err != nil {
			b.Fatalf("row %d: %v", i+1, err)
		}
		tokens += last.Tokens
		if i < contextParts && last.Status != "ok" && last.Status != "partial" {
			if failed = append(failed, i+1); fail == 0 {
				b.Fatalf("row %d: %s: %s", i+1, last.Status, last.Reason)
			}
		}
	}
	if last.Reduced == nil || last.Status != "ok" || !slices.Equal(last.Reduced.Missing, failed) {
		b.Fatalf("the answer is %s: %s: it misses %v, and these failed: %v", last.Status, last.Reason, last.Reduced, failed)
	}
	for _, fact := range regexp.MustCompile(`The number of part (\d+) is \d+\.`).FindAllStringSubmatch(last.Text, -1) {
		part, _ := strconv.Atoi(fact[1])
		if c.facts[part] != fact[0] {
			b.Fatalf("found %q, which is not there", fact[0])
		}
		found++
	}
	for part := range c.facts {
		if slices.Contains(failed, part) {
			missing++
		}
	}
	if found+missing != len(c.facts) {
		b.Fatalf("%d facts were found and %d are named as missing, of %d:\n%s", found, missing, len(c.facts), last.Text)
	}
	return found, missing, tokens
}

// killSome kills n children of a process, one each 300 ms, until done. It returns how many.
func killSome(parent, n int, done *atomic.Bool) (killed int) {
	for killed < n && !done.Load() {
		time.Sleep(300 * time.Millisecond)
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			stat, err := os.ReadFile(path)
			if err != nil {
				continue // it has ended
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			fields := strings.Fields(rest)
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if len(fields) > 1 && fields[1] == strconv.Itoa(parent) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
				break
			}
		}
	}
	return killed
}

package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Generation reads the name of one of Anthropic's models: "claude-sonnet-4-5-20250929" is "sonnet",
// 405; "claude-3-7-sonnet-20250219" is "sonnet", 307. A name that says nothing has version 0.
func Generation(name string) (family string, version int) {
	var numbers []int
	for _, word := range strings.Split(strings.TrimPrefix(name, "claude-"), "-") {
		n, err := strconv.Atoi(word)
		switch {
		case err != nil && family == "":
			family = word
		case err == nil && n < 100 && len(numbers) < 2:
			numbers = append(numbers, n)
		}
	}
	switch len(numbers) {
	case 1:
		return family, numbers[0] * 100
	case 2:
		return family, numbers[0]*100 + numbers[1]
	}
	return family, 0
}

// Reasons reports whether a name is that of one of OpenAI's reasoning models: o1 and its
// successors, and GPT from 5 on.
func Reasons(name string) bool {
	if len(name) > 1 && name[0] == 'o' && '1' <= name[1] && name[1] <= '9' {
		return true
	}
	return GPT(name) >= 500 && !strings.Contains(name, "chat")
}

// GPT reads the version of one of OpenAI's models: "gpt-5.1-2025-11-13" is 501. Another name has 0.
func GPT(name string) int {
	rest, ok := strings.CutPrefix(name, "gpt-")
	if !ok {
		return 0
	}
	word, _, _ := strings.Cut(rest, "-")
	major, minor, _ := strings.Cut(word, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	m, _ := strconv.Atoi(minor) // none is 0
	return 100*n + m
}

// Reasoning returns the level of reasoning with which a request is sent. For one that is Brief it is
// the lowest that the vendor's own model is known to take. In the middle of a conversation models of
// Anthropic go on thinking in their way, with less effort.
func (c Config) Reasoning(r Request) string {
	if !r.Brief || r.Reasoning == "none" || !c.Official() {
		return r.Reasoning
	}
	family, version := Generation(r.Model)
	alone, gpt := len(r.Messages) == 1, GPT(r.Model)
	switch claude := strings.HasPrefix(r.Model, "claude-") && family != ""; {
	case claude && version > 405 && version <= 505 && alone:
		return "none"
	case claude && (version >= 500 || version > 405 && r.Reasoning != ""):
		return "low"
	case claude, !Reasons(r.Model), hasAny(r.Model, "-pro", "codex", "deep-research", "search", "o1-mini", "o1-preview"):
		return r.Reasoning
	case gpt >= 501 && (alone || r.Reasoning == ""):
		return "none"
	}
	return "low"
}

func hasAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
}

// Temperature returns the temperature that a request may have where somebody wants one, nil and the
// reason where the vendor rejects it.
//
// Models of Anthropic after Claude Opus 4.6 accept only 1, and earlier ones only 1 with thinking.
// The wire format has 0 to 1. OpenAI's reasoning models accept only 1; from GPT-5.1 on they accept
// others without reasoning.
func (i Info) Temperature(want *float64, reasoning string) (send *float64, why string) {
	if want == nil || *want == 1 {
		return want, ""
	}
	thinks := reasoning != "" && reasoning != "none"
	switch name := i.Name[strings.LastIndex(i.Name, "/")+1:]; i.Format {
	case "anthropic":
		_, version := Generation(name)
		switch {
		case *want > 1:
			return nil, "Anthropic's models take 0 to 1"
		case strings.HasPrefix(name, "claude-") && (version == 0 || version > 406):
			return nil, "models after Claude Opus 4.6 take none"
		case thinks:
			return nil, fmt.Sprintf("with reasoning = %q the model takes none", reasoning)
		}
	case "openai":
		switch {
		case !Reasons(name):
		case GPT(name) < 501:
			return nil, "the model takes none"
		case reasoning != "none":
			return nil, `the model takes one with reasoning = "none" only`
		}
	}
	return want, ""
}

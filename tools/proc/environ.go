package proc

import (
	"slices"
	"strings"
)

// AgentEnv returns the names that the environment of an agent is built from, for [Environ]. The
// caller appends what a certain agent needs.
func AgentEnv() []string {
	return []string{
		"PATH", "HOME", "USER", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
		"http_proxy", "https_proxy", "all_proxy", "no_proxy",
		"SSL_CERT_*", "GOCOVERDIR", "OTEL_*", "TRACEPARENT", "TRACESTATE",
		"JP_LOG_FILE", "GOTRACEBACK",
	}
}

// ToolEnv returns the names that the environment of a tool is built from, for [Environ]. The caller
// appends the names in the tool's definition.
func ToolEnv() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "TZ", "TMPDIR"}
}

// Environ builds an environment from the entries of from ("NAME=value") that allow lets through. An
// element of allow is a name, a prefix of names that ends in "*", or "NAME=value", which sets that
// variable whatever from says. Where from or allow names a variable more than once the last one
// counts. Entries without a name or a "=", or with a NUL byte, are dropped, since no program could
// be given them. The order is that of from, then of allow. The result shares no memory with its
// arguments and is never nil.
func Environ(from []string, allow ...string) []string {
	names := make(map[string]bool, len(allow))
	var prefixes []string
	for _, a := range allow {
		if strings.Contains(a, "=") {
			continue
		}
		if prefix, ok := strings.CutSuffix(a, "*"); ok {
			prefixes = append(prefixes, prefix)
		} else {
			names[a] = true
		}
	}
	allowed := func(name string) bool {
		return names[name] || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}

	env := make([]string, 0, len(allow))
	at := make(map[string]int, len(allow))
	add := func(name, entry string) {
		if name == "" || strings.Contains(entry, "\x00") {
			return
		}
		if i, ok := at[name]; ok {
			env[i] = entry
			return
		}
		at[name] = len(env)
		env = append(env, entry)
	}
	for _, e := range from {
		if name, _, ok := strings.Cut(e, "="); ok && allowed(name) {
			add(name, e)
		}
	}
	for _, a := range allow {
		if name, _, ok := strings.Cut(a, "="); ok {
			add(name, a)
		}
	}
	return env
}

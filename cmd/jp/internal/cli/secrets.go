package cli

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"jp/cmd/jp/internal/model"
)

// cover puts the names of secrets in their place.
type cover struct {
	secrets map[string]string // the name of the variable, by value
	seen    map[string]bool   // names
}

// leastSecret is the shortest value of a variable, in bytes, that is taken for a secret and not for a word.
const leastSecret = 8

// secretName matches the names of variables that usually hold secrets.
var secretName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)($|_)|APIKEY`)
})

// covers knows the secrets of this environment: the keys of all providers, and what is called like one.
func (a *app) covers() (*cover, error) {
	names := map[string]bool{}
	for _, b := range model.Builtins() {
		for _, name := range b.Keys {
			names[name] = true
		}
	}
	m, err := a.machine()
	if err != nil {
		return nil, err
	}
	for _, p := range m.Providers.LLM {
		names[p.APIKeyEnv] = true
	}
	c := &cover{secrets: map[string]string{}, seen: map[string]bool{}}
	for _, kv := range a.env.Environ {
		name, value, _ := strings.Cut(kv, "=")
		named := names[name] || secretName().MatchString(name) && !strings.HasPrefix(name, "JP_") // which are settings
		if value = strings.TrimSpace(value); len(value) < leastSecret || !named {
			continue
		}
		c.secrets[value] = name
		if inJSON, err := json.Marshal(value); err == nil { // as it stands in arguments
			c.secrets[string(inJSON[1:len(inJSON)-1])] = name
		}
	}
	return c, nil
}

// clean returns text with [NAME] for each secret, the longest first: one may hold another.
func (c *cover) clean(text string) string {
	values := slices.SortedFunc(maps.Keys(c.secrets), func(a, b string) int { return len(b) - len(a) })
	for _, value := range values {
		if strings.Contains(text, value) {
			name := c.secrets[value]
			c.seen[name] = true
			text = strings.ReplaceAll(text, value, "["+name+"]")
		}
	}
	return text
}

// found lists the names of the secrets that were found so far.
func (c *cover) found() []string { return slices.Sorted(maps.Keys(c.seen)) }

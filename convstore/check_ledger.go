package convstore

// checkLedger compares the accounts with the delegations that they add up.
func (c *checker) checkLedger(all []Delegation) {
	type key struct {
		root   ID
		number uint64
	}
	at := func(d Delegation) key { return key{d.Root, d.Number} }
	byKey := make(map[key]Delegation, len(all))
	totals := make(map[key]Spend, len(all)) // sums of the settled delegations directly within each
	for _, d := range all {
		byKey[at(d)] = d
		if d.State != "" && d.Within != 0 {
			k := key{d.Root, d.Within}
			totals[k] = totals[k].Add(d.Total)
		}
	}
	below := make(map[ID]Spend)
	charge := func(d Delegation, id ID, turn int, s Spend) {
		if r := c.records[id]; r != nil && r.Turns == turn && d.Number > r.After {
			below[id] = below[id].Add(s)
		}
	}
	for _, d := range all {
		if d.State == "" {
			continue
		}
		if want := d.Own.Add(totals[at(d)]); d.Total != want {
			c.problem("delegation %s: its total says %+v, counted %+v", d.ID, d.Total, want)
		}
		if d.Imported {
			continue // it counts in no account
		}
		if d.Within != 0 && d.Caller != d.Root {
			charge(d, d.Caller, d.Turn, d.Total)
		}
		top, settled := d, true
		for top.Within != 0 && settled {
			up, ok := byKey[key{top.Root, top.Within}]
			if !ok || up.Number >= top.Number {
				c.problem("delegation %s: is within delegation %d, which does not come before it", top.ID, top.Within)
				break
			}
			top, settled = up, up.State != ""
		}
		if settled {
			charge(d, d.Root, d.Session, d.Own)
		}
	}
	c.checkOwn(all)
	c.checkTallies(all)
	for id, r := range c.records {
		if r.Below != below[id] {
			c.problem("conversation %s: its account has %+v settled, its delegations come to %+v", id, r.Below, below[id])
		}
	}
}

// checkOwn compares the use that delegations record with the use in their children's events. The
// records of the children were compared with those events before. A child with an open delegation
// is left out: its last run is not settled yet.
func (c *checker) checkOwn(all []Delegation) {
	own, open := make(map[ID]Spend), make(map[ID]bool)
	for _, d := range all {
		switch {
		case d.Imported:
		case d.State == "":
			open[d.Child] = true
		default:
			own[d.Child] = own[d.Child].Add(d.Own)
		}
	}
	for id, r := range c.records {
		if r.Link != DelegationLink || r.Grant == nil || open[id] {
			continue // a person's own runs are in no ledger
		}
		if r.spend().Bounded() != own[id].Bounded() {
			c.problem("conversation %s: its events come to %+v, the delegations that ran it to %+v", id, r.spend(), own[id])
		}
	}
}

// checkTallies counts again how many delegations and children the present turns made.
func (c *checker) checkTallies(all []Delegation) {
	found := make(map[ID]tallied)
	count := func(d Delegation, id ID, turn int, add func(*tallied)) {
		if r := c.records[id]; r != nil && r.Turns == turn && d.Number > r.After {
			m := found[id]
			add(&m)
			found[id] = m
		}
	}
	for _, d := range all {
		if d.Imported || d.Unstarted {
			continue
		}
		if !d.Person {
			count(d, d.Caller, d.Turn, func(m *tallied) { m.Calls++ })
		}
		if d.Fresh {
			count(d, d.Root, d.Session, func(m *tallied) { m.Forked++ })
		}
	}
	for id, r := range c.records {
		if r.Made != nil && *r.Made != found[id] {
			c.problem("conversation %s: %+v by delegations of its turn, counted %+v", id, *r.Made, found[id])
		}
	}
}

-- The tables of go-election on MySQL 8.0 and later and MariaDB 10.6 and later.
-- mysql.CreateTables and "elect schema --apply" run this, once. If you run it by hand, see
-- the end. Tables that exist stay as they are. For another prefix or schema, edit the names.
--
-- All text is VARBINARY: names are compared byte by byte. All times are UTC and for people:
-- they decide nothing.

CREATE TABLE IF NOT EXISTS `election_lease` (
  `name`          VARBINARY(255)  NOT NULL COMMENT 'of the election; empty: the row of the table itself',
  `holder`        VARBINARY(255)  NOT NULL COMMENT 'id of the leader; empty: vacant',
  `nonce`         VARBINARY(64)   NOT NULL COMMENT 'of the process that leads',
  `address`       VARBINARY(255)  NOT NULL COMMENT 'of the leader, as announced by it',
  `metadata`      VARBINARY(4096) NOT NULL COMMENT 'of the leader, as announced by it',
  `term`          BIGINT UNSIGNED NOT NULL COMMENT 'of this leadership, or of the last one',
  `heartbeat`     BIGINT UNSIGNED NOT NULL COMMENT 'a fresh random number at each grant, renewal and release',
  `ttl_us`        BIGINT UNSIGNED NOT NULL COMMENT 'how long the lease lasts if it is not renewed, microseconds',
  `renew_us`      BIGINT UNSIGNED NOT NULL COMMENT 'how often the holder renews, microseconds',
  `server`        VARBINARY(160)  NOT NULL COMMENT 'identity of the server that wrote this row last',
  `ended`         VARBINARY(16)   NOT NULL COMMENT 'how the previous leadership ended: released, failed, deposed, forgotten',
  `last_id`       VARBINARY(255)  NOT NULL COMMENT 'id of the previous leader',
  `request`       VARBINARY(16)   NOT NULL COMMENT 'of an operator: nominate, accept, depose',
  `request_id`    VARBINARY(255)  NOT NULL,
  `request_nonce` VARBINARY(64)   NOT NULL,
  `moved_to`      VARBINARY(64)   NOT NULL COMMENT 'sealed: the election has moved to this store; no process leads here',
  `moved_from`    VARBINARY(64)   NOT NULL COMMENT 'the election has moved here from this store, where it is sealed',
  `elected_at`    DATETIME(6)     NOT NULL COMMENT 'UTC, for people: when this leadership began',
  `renewed_at`    DATETIME(6)     NOT NULL COMMENT 'UTC, for people: when this row was last written',
  `expires_at`    DATETIME(6)     NOT NULL COMMENT 'UTC, for people: decides nothing',
  `history`       VARBINARY(4096) NOT NULL COMMENT 'JSON: the last eight leaderships, newest first',
  PRIMARY KEY (`name`)
) ENGINE=InnoDB;

-- Only grants write this table. mysql.Fence locks its rows and no others.
CREATE TABLE IF NOT EXISTS `election_term` (
  `name`   VARBINARY(255)  NOT NULL,
  `term`   BIGINT UNSIGNED NOT NULL,
  `nonce`  VARBINARY(64)   NOT NULL,
  `holder` VARBINARY(255)  NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB;

-- One row for each process that takes part. Rows of processes that have been gone for a day
-- are reused.
CREATE TABLE IF NOT EXISTS `election_member` (
  `nonce`     VARBINARY(64)   NOT NULL,
  `id`        VARBINARY(255)  NOT NULL,
  `address`   VARBINARY(255)  NOT NULL,
  `metadata`  VARBINARY(4096) NOT NULL,
  `stage`     VARBINARY(32)   NOT NULL COMMENT 'of a migration, or empty',
  `elections` VARBINARY(4096) NOT NULL COMMENT 'for which it campaigns, one per line; an empty line: and more',
  `ttl_us`    BIGINT UNSIGNED NOT NULL,
  `seen_at`   DATETIME(6)     NOT NULL COMMENT 'UTC',
  PRIMARY KEY (`nonce`)
) ENGINE=InnoDB;

-- The table's own row: the layout version (holder), how many elections were ever made
-- (term), the greatest TTL of a bid (ttl_us, 15 s), and the server that made the last
-- election (server). If server is empty, the first election waits 15 s, once.
-- mysql.CreateTables fills in the server, and a nonce by which a process notices that its
-- tables were dropped and created again.
-- Error 1062 means that the row exists already, and is harmless.
INSERT INTO `election_lease`
  (`name`, `holder`, `nonce`, `address`, `metadata`, `term`, `heartbeat`, `ttl_us`, `renew_us`, `server`, `ended`, `last_id`,
   `request`, `request_id`, `request_nonce`, `moved_to`, `moved_from`, `elected_at`, `renewed_at`, `expires_at`, `history`)
VALUES
  ('', 'layout 1', '', '', 'row of the table itself: term = elections ever made, ttl_us = greatest TTL of a bid, server = where the last election was made',
   0, 0, 15000000, 0, '', '', '', '', '', '', '', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), '[]');
